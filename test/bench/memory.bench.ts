import { startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { report } from './figure.ts';
import { addPausedConversations, addTemplate, newKey } from './population.ts';

/**
 * The heap that each stored conversation takes of an operator and a gateway, with its sandbox,
 * claim and slot, while it is paused.
 */
const count = Number(process.env['OBJECTS'] ?? 10_000);
const target = { atMost: 6 };

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
await addTemplate(server.client);
const key = await newKey(server.client);
await addPausedConversations(server.client, count);

async function measure(
  program: string,
  args: readonly string[],
): Promise<{ readonly caches: number; readonly all: number }> {
  const child = startChild(program, [server.kubeconfig, ...args], ['--expose-gc']);
  try {
    await child.line();
    return JSON.parse(await child.line()) as { readonly caches: number; readonly all: number };
  } finally {
    await child.close();
  }
}

// The first operator writes what it finds missing in the population.
await measure('memory-operator.ts', []);
const each = (bytes: number): number => bytes / count / 1024;
const operator = await measure('memory-operator.ts', []);
const what = `each of ${count.toLocaleString('en')} paused conversations`;
report({ what: `operator: heap for ${what}`, value: each(operator.all), unit: 'KiB', target });
report({ what: `operator: of these, its caches`, value: each(operator.caches), unit: 'KiB' });
const gateway = await measure('memory-gateway.ts', [key]);
report({
  what: `gateway: heap for ${what}, all of them seen`,
  value: each(gateway.all),
  unit: 'KiB',
  target,
});
report({ what: `gateway: of these, its caches`, value: each(gateway.caches), unit: 'KiB' });
