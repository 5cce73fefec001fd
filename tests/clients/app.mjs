// Empty projects, with the packed client installed as from a registry.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createServer, request as send } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

/** @param {string} path from the repository's root */
export const repository = (path) => new URL(`../../${path}`, import.meta.url).pathname;

// The settings by which npm runs these tests must not reach the npm of another project.
const environment = () => Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_')));

/**
 * Runs a program to its end, and returns what it printed.
 * @param {string} program @param {string[]} args @param {string} cwd @param {Record<string, string>} [env]
 */
export async function run(program, args, cwd, env = {}) {
  const { stdout, stderr } = await promisify(execFile)(program, args, { cwd, env: { ...environment(), ...env } });
  process.stderr.write(stderr);
  return stdout;
}

/** Runs Python with the generated client and the examples. @param {string[]} args @param {Record<string, string>} [env] */
export function python(args, env = {}) {
  const PYTHONPATH = ['target/python/hongbao-client', 'examples'].map(repository).join(':');
  return run(repository('.tools/clients/bin/python'), args, repository('.'), { PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1', ...env });
}

/** Returns an empty project that has installed the packed client, and what `npm pack` says of the package. */
export async function newApp() {
  const folder = await mkdtemp(join(tmpdir(), 'hongbao-app-'));
  const [packed] = JSON.parse(await run('npm', ['pack', '--json', '--pack-destination', folder], repository('clients/js')));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'app', private: true, type: 'module' }));
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent', `./${packed.filename}`], folder);
  return { folder, packed };
}

/**
 * Starts a program that says when it is ready.
 * @param {string} program @param {string[]} args @param {{cwd?: string, env?: Record<string, string>, stderr?: 'inherit' | number}} options
 * @param {RegExp} ready with one group
 */
export async function start(program, args, { cwd, env, stderr = 'inherit' }, ready) {
  const child = spawn(program, args, { cwd, env: { ...environment(), ...env }, stdio: ['ignore', 'pipe', stderr] });
  const end = () => child.kill();
  process.on('exit', end);
  child.once('exit', () => process.off('exit', end));
  const stop = async (/** @type {NodeJS.Signals} */ signal = 'SIGTERM') => {
    child.kill(signal);
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };
  /** The other lines that it prints. @type {string[]} */
  const printed = [];
  const lines = createInterface({ input: /** @type {import('node:stream').Readable} */ (child.stdout) });
  const said = await new Promise((resolve, reject) => {
    lines.on('line', (line) => (ready.test(line) ? resolve(ready.exec(line)?.[1]) : printed.push(line)));
    lines.once('close', () => reject(new Error(`${program} ended before it was ready`)));
  });
  return { said: String(said), stop, printed };
}

/** Returns a port that nobody listens at. */
export async function freePort() {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a proxy that carries out each request, but loses the first answer to it. While it is down it answers 503. @param {string} target */
export async function losingAnswers(target) {
  const { hostname, port } = new URL(target);
  /** @type {Set<string>} */
  const lost = new Set();
  const state = { isDown: false, asked: 0 };
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    state.asked += 1;
    if (state.isDown) return response.writeHead(503).end();
    const body = Buffer.concat(chunks);
    const { method, url, headers } = request;
    const name = JSON.stringify([method, url, headers['x-user-id'], headers['idempotency-key'], body.toString()]);
    const onward = send({ hostname, port, method, path: url, headers: { ...headers, host: `${hostname}:${port}` } }, (answer) => {
      if (lost.has(name)) return answer.pipe(response.writeHead(answer.statusCode ?? 500, answer.headers));
      lost.add(name);
      return answer.resume().on('end', () => request.socket.destroy());
    });
    onward.on('error', () => request.socket.destroy());
    return onward.end(body);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  const stop = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${address.port}`, lost, state, stop };
}

/** Begins a POST with these headers, which fetch would not send, and returns the status. @param {string} url @param {string[]} headers */
export async function statusOf(url, headers) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  try {
    socket.write(['POST / HTTP/1.1', 'Host: a', ...headers, '', ''].join('\r\n'));
    const [said] = await once(socket, 'data', { signal: AbortSignal.timeout(5_000) });
    return Number(String(said).split(' ')[1]);
  } finally {
    socket.destroy();
  }
}
