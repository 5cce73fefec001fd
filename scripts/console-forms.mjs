#!/usr/bin/env node
// Makes the forms of the support page from openapi.yaml: each deed of the operator with its path and the fields of its body. `--check` only
// says whether web/console/forms.js is what it would make.

import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const { load } = createRequire(new URL('../tests/web/package.json', import.meta.url))('js-yaml');
const MADE = new URL('../web/console/forms.js', import.meta.url);
/** Where the operator changes something by hand. Apps send and grab for users, below /users. */
const DEEDS = /^\/(operator|wallets)\//;

const api = load(await readFile(new URL('../openapi.yaml', import.meta.url), 'utf8'));

/** Follows references, also of a schema that may be null. What stands beside a reference wins. */
function resolved({ $ref, ...own }) {
  const found = $ref ? { ...resolved($ref.slice(2).split('/').reduce((part, name) => part[name], api)), ...own } : own;
  const { anyOf, ...rest } = found;
  return anyOf ? { ...resolved(anyOf.find(({ type }) => type !== 'null')), ...rest } : found;
}

/** The fields of a body. */
function fieldsOf(requestBody) {
  const schema = requestBody && resolved(resolved(requestBody).content['application/json'].schema);
  return Object.entries(schema?.properties ?? {}).map(([name, property]) => {
    const { type, minimum, maximum, minLength, maxLength, pattern } = resolved(property);
    const kind = [type].flat().find((one) => one !== 'null');
    // All integers of these bodies are amounts.
    return { name, type: kind === 'integer' ? 'money' : kind, required: (schema.required ?? []).includes(name), min: minimum ?? minLength, max: maximum ?? maxLength, pattern };
  });
}

const forms = Object.entries(api.paths).flatMap(([path, { parameters: _, ...operations }]) =>
  Object.entries(operations)
    .filter(([method]) => DEEDS.test(path) && method !== 'get')
    .map(([method, { operationId, requestBody }]) => [operationId, { method: method.toUpperCase(), path, fields: fieldsOf(requestBody) }]),
);
const made = `// Made from openapi.yaml by scripts/console-forms.mjs: make generate ONLY=client

/** @typedef {{name: string, type: 'money' | 'string' | 'boolean', required: boolean, min?: number, max?: number, pattern?: string}} Field */
/** @typedef {{method: string, path: string, fields: Field[]}} Form */

/** @type {Record<string, Form>} */
export const FORMS = {
${forms.map(([name, form]) => `  ${name}: ${JSON.stringify(form)},\n`).join('')}};
`;

if (!process.argv.includes('--check')) await writeFile(MADE, made);
else if ((await readFile(MADE, 'utf8').catch(() => '')) !== made) {
  console.error('web/console/forms.js is not what openapi.yaml says: make generate ONLY=client');
  process.exitCode = 1;
}
