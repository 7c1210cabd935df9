import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { sandboxes } from '../../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../../src/status/sandbox-phase.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import {
  aConversation,
  aQuota,
  aSandbox,
  admitted,
  condition,
  noon,
} from '../../../support/builders.ts';

let scene: AdmissionScene;
beforeEach(() => {
  scene = new AdmissionScene();
});
afterEach(() => scene.stop());

const ofBob = aConversation({ name: '2'.padStart(32, '0'), spec: { owner: 'bob' } });

describe.each([true, false])(
  'a sandbox that names the conversation of another owner, controller %s,',
  (controller) => {
    it('gives its slot to a newcomer once a cache shows the conversation', async () => {
      await scene.addQuota(aQuota('default', { scope: 'Namespace', limit: 1 }));
      const { metadata: _metadata, ...running } = aSandbox({
        owner: 'mallory',
        status: {
          replicas: 1,
          activeSinceTime: noon,
          lastContainerID: 'c',
          agentEpoch: 1,
          conditions: [{ ...admitted, observedGeneration: 1 }, condition('Ready', 'True')],
        },
      });
      const ownerReferences = [ownerReferenceTo(ofBob, { controller })];
      scene.show(
        await scene.client.create(sandboxes, {
          ...running,
          metadata: { name: 'of-mallory', namespace: 'default', ownerReferences },
        }),
      );
      scene.showConversation(ofBob);
      await scene.addSandbox('newcomer', { owner: 'bob' });
      await scene.clock.advance(0);
      expect(viewOfSandbox(await scene.stored('of-mallory'))).toMatchObject({
        phase: 'PAUSED',
        reason: 'Quota',
      });
    });
  },
);

it('a sandbox gives its slot although a start waits for an earlier sandbox of its name', async () => {
  await scene.addQuota(aQuota('default', { limit: 1 }));
  const sandbox = await scene.addSandbox('again', {
    status: {
      replicas: 1,
      activeSinceTime: noon,
      lastContainerID: 'c',
      agentEpoch: 1,
      conditions: [{ ...admitted, observedGeneration: 1 }, condition('Ready', 'True')],
    },
  });
  scene.showConversation(
    aConversation({
      status: {
        start: { status: 'WAITING_FOR_SANDBOX', transitions: [] },
        sandboxName: sandbox.metadata.name,
        sandboxUID: 'earlier',
      },
    }),
  );
  await scene.addSandbox('newcomer');
  await scene.clock.advance(0);
  expect(viewOfSandbox(await scene.stored('again')).reason).toBe('Quota');
});
