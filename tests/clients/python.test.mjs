// A client for Python that a well-known generator makes from openapi.yaml. `make test-clients` makes it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { startStack } from '../web/harness.mjs';
import { python } from './app.mjs';

test('the walk-through works with a generated client in Python', async () => {
  const stack = await startStack();
  try {
    assert.match(await python(['tests/clients/walk_through.py', stack.url]), /works/);
  } finally {
    await stack.stop();
  }
});
