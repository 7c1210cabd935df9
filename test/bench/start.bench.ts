import { systemClock } from '@conversation-operator/base/clock';
import { Controller } from '@conversation-operator/kube/controller';
import { Reflector } from '@conversation-operator/kube/reflector';
import { silentLogger } from '@conversation-operator/base/logger';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { connectTo, inParallel, namespace, openApiServer } from './api-server.ts';
import { report } from './figure.ts';

/**
 * The time in which a new process has reconciled each of many existing objects once. The benchmark
 * uses KUBECONFIG where it is set.
 */
const count = Number(process.env['OBJECTS'] ?? 50_000);
const server = await openApiServer();
await inParallel(count, 16, (index) =>
  server.client.create(sandboxes, {
    apiVersion,
    kind: 'Sandbox',
    metadata: { namespace, name: `sandbox-${index}` },
    spec: { owner: `user-${index % 1000}`, templateName: 'default', replicas: 1 },
  }),
);

const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const began = performance.now();
const fresh = connectTo(server.connection);
const reflector = new Reflector({
  client: fresh.client,
  resource: sandboxes,
  namespace,
  ...runtime,
});
const left = new Set(Array.from({ length: count }, (_, index) => `sandbox-${index}`));
const all = Promise.withResolvers<undefined>();
const controller = new Controller({
  name: 'bench',
  workers: 16,
  ...runtime,
  reconcile: ({ name }) => {
    if (reflector.store.get(namespace, name) !== undefined) left.delete(name);
    if (left.size === 0) all.resolve(undefined);
    return Promise.resolve(undefined);
  },
});
reflector.addHandler({
  added: ({ metadata: { name } }) => controller.enqueue({ namespace, name }),
});
reflector.start();
await reflector.synced();
const listedMs = performance.now() - began;
controller.start();
await all.promise;
const doneMs = performance.now() - began;
const what = `${count.toLocaleString('en')} objects of ${server.name}`;
report({ what: `${what} listed`, value: listedMs / 1000, unit: 's' });
report({
  what: `${what} first reconciled`,
  value: doneMs / 1000,
  unit: 's',
  target: { atMost: (10 * count) / 50_000 },
});
await controller.stop();
await reflector.stop();
await fresh.close();
await server.close();
