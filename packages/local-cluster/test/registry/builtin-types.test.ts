import { readFileSync } from 'node:fs';
import { generate, target } from '../../../../test/support/builtin-types.ts';

it('the types of the built-in kinds are those of @kubernetes/client-node (else: node_modules/.bin/node test/support/builtin-types.ts)', async () => {
  expect(readFileSync(target, 'utf8')).toBe(await generate());
});
