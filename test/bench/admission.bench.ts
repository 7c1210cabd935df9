import { setTimeout as delay } from 'node:timers/promises';
import type { StatusUpdate } from '@conversation-operator/kube/client';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { AdmissionScene } from '../support/admission-scene.ts';
import { aQuota } from '../support/builders.ts';
import { report } from './figure.ts';

/**
 * Newcomers of one owner that all have room, and an API server that answers each write after 10 ms:
 * decisions are made in order, and their writes are in flight together.
 */
const newcomers = 1_000;
const latencyMs = 10;

const scene = new AdmissionScene();
const { client } = scene;
const updateStatus = client.updateStatus.bind(client);
let answered = 0;
const all = new Promise<void>((resolve) => {
  client.updateStatus = async <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: StatusUpdate<T>,
  ) => {
    await delay(latencyMs);
    answered++;
    if (answered === newcomers) resolve();
    return updateStatus(resource, object);
  };
});
await scene.addQuota(aQuota('default', { limit: newcomers }));
const began = performance.now();
for (let index = 0; index < newcomers; index++) await scene.addSandbox(`sbx-${index}`);
await all;
report({
  what: 'admissions where each write takes 10 ms',
  value: (newcomers * 1000) / (performance.now() - began),
  unit: '/s',
  target: { atLeast: 200 },
});
await scene.stop();
