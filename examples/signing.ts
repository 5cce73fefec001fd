// Signs the operator's requests with AWS Signature Version 4: npm install @smithy/signature-v4 @aws-crypto/sha256-js @aws-sdk/credential-provider-node
//
// const operator = new Hongbao({ baseUrl, fetch: signingFetch('ap-east-1') });
//
// The keys are those that AWS's own tools would find, and are renewed as theirs are. Any client that takes a `fetch` can use it.

import { Sha256 } from '@aws-crypto/sha256-js';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';

/** Returns a `fetch` that signs, for an API in this region. */
export function signingFetch(region: string): typeof fetch {
  const signer = new SignatureV4({ service: 'execute-api', region, credentials: defaultProvider(), sha256: Sha256 });
  return async (input, init) => {
    const request = new Request(input, init);
    const { protocol, hostname, host, pathname: path, searchParams } = new URL(request.url);
    const query = Object.fromEntries(searchParams);
    const body = new Uint8Array(await request.clone().arrayBuffer());
    // It signs no other header: proxies change some.
    const { headers } = await signer.sign({ method: request.method, protocol, hostname, path, query, headers: { host }, body });
    const { host: _, ...signature } = headers;
    for (const [name, value] of Object.entries(signature)) request.headers.set(name, value);
    return fetch(request);
  };
}
