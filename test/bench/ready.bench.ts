import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild } from './child.ts';
import { report, type Taken } from './figure.ts';
import { imageFlags } from './image.ts';

/**
 * How soon a fresh process is ready with 10,000 conversations that have a message of 64 KiB each,
 * which are 640 MiB in etcd, and in how much memory.
 */
const count = Number(process.env['OBJECTS'] ?? 10_000);
const messageBytes = 65_536;
/** Flags for a container of 512 MiB, with room for what is not in the heap. */
const flags = ['--expose-gc', ...imageFlags, '--max-old-space-size=256'];

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
const server = startChild('large-server.ts', [String(count), String(messageBytes)]);
stack.defer(() => server.close());
const kubeconfig = join(folder, 'kubeconfig');
const named = (kind: string, more: object) => [{ name: 'bench', [kind]: more }];
writeFileSync(
  kubeconfig,
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'bench',
    clusters: named('cluster', {
      server: `http://127.0.0.1:${await server.line()}`,
      'insecure-skip-tls-verify': true,
    }),
    users: named('user', { token: 'a-token' }),
    contexts: named('context', { cluster: 'bench', user: 'bench' }),
  }),
);

for (const process of ['operator', 'gateway']) {
  const began = performance.now();
  const child = startChild(`memory-${process}.ts`, [kubeconfig], flags);
  try {
    const { maxMiB, processorSeconds } = JSON.parse(await child.line()) as Taken;
    const what = `${process}: ready with ${count.toLocaleString('en')} conversations of 64 KiB`;
    report({ what, value: (performance.now() - began) / 1000, unit: 's', target: { atMost: 20 } });
    report({ what: `${process}: processor time until then`, value: processorSeconds, unit: 's' });
    report({
      what: `${process}: memory until then, at its maximum`,
      value: maxMiB,
      unit: 'MiB',
      target: { atMost: 512 },
    });
  } finally {
    await child.close();
  }
}
