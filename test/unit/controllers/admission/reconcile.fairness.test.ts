import { sleep } from '@conversation-operator/base/clock';
import { isTrue } from '../../../../src/resources/conditions.ts';
import { SandboxCondition, sandboxes } from '../../../../src/resources/sandbox.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import { aSandbox } from '../../../support/builders.ts';

const maxWaitMs = 500;

describe('a sandbox in a quiet namespace', () => {
  const cases: [busyNamespaces: number, startsPerSecond: number, writeMs: number][] = [
    [1, 200, 50],
    [1, 400, 100],
    [40, 20, 50],
  ];
  it.each(cases)(
    'is admitted soon beside %i busy namespaces with %i starts a second and writes of %i ms',
    async (busyNamespaces, startsPerSecond, writeMs) => {
      const scene = new AdmissionScene();
      const { client, clock } = scene;
      const updateStatus = client.updateStatus.bind(client);
      client.updateStatus = async (...args) => {
        const answer = await updateStatus(...args);
        await sleep(clock, writeMs);
        return answer;
      };
      const add = async (namespace: string, name: string) => {
        const { metadata: _metadata, ...rest } = aSandbox({ name });
        scene.show(await client.create(sandboxes, { ...rest, metadata: { name, namespace } }));
      };
      let isOver = false;
      const load = Array.from({ length: busyNamespaces }, async (_, index) => {
        for (let count = 0; !isOver; count += 1) {
          await add(`busy-${index}`, `sandbox-${count}`);
          await sleep(clock, 1_000 / startsPerSecond);
        }
      });
      await clock.advance(1_000);
      await add('quiet', 'sandbox');
      const from = clock.monotonic();
      const isAdmitted = async () => {
        const { status } = await client.get(sandboxes, 'quiet', 'sandbox');
        return isTrue(status?.conditions, SandboxCondition.admitted);
      };
      while (!(await isAdmitted()) && clock.monotonic() - from < 10 * maxWaitMs)
        await clock.advance(10);
      expect(clock.monotonic() - from).toBeLessThanOrEqual(maxWaitMs);
      isOver = true;
      await clock.advance(2_000);
      await Promise.all(load);
      await scene.stop();
    },
  );
});
