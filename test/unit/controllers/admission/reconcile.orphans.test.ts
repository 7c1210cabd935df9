import { ownSandboxName } from '../../../../src/resources/ids.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
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

const ready = { status: 'READY' as const, transitions: [] };
const asking = aConversation({
  name: '2'.padStart(32, '0'),
  status: { start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } },
});
const removeAsking = () => {
  scene.stores.conversations.delete('default', asking.metadata.name);
  scene.admission.forgetConversation(asking);
};

/** The only slot of the owner has a sandbox whose agent works. */
async function addWorking(): Promise<void> {
  await scene.addQuota(aQuota('default', { limit: 1 }));
  const conversation = aConversation({
    status: { start: ready, executionStatus: 'running', sandboxName: 'sbx-works', agentEpoch: 1 },
  });
  scene.showConversation(conversation);
  await scene.addSandbox('sbx-works', {
    status: {
      replicas: 1,
      activeSinceTime: noon,
      lastContainerID: 'c',
      agentEpoch: 1,
      conditions: [{ ...admitted, observedGeneration: 1 }, condition('Ready', 'True')],
    },
  });
}

/** The sandbox made for the conversation, which asks for a slot once a cache shows it. */
function createAsking(): Promise<Sandbox> {
  const { metadata: _metadata, ...sandbox } = aSandbox();
  const name = ownSandboxName(asking.metadata.name);
  const ownerReferences = [ownerReferenceTo(asking, { controller: true })];
  return scene.client.create(sandboxes, {
    ...sandbox,
    metadata: { name, namespace: 'default', ownerReferences },
  });
}

describe('for the sandbox of a start an agent that works', () => {
  const cases: [string, string, (sandbox: Sandbox) => void][] = [
    [
      'is paused',
      'PAUSED',
      (sandbox) => {
        scene.showConversation(asking);
        scene.show(sandbox);
      },
    ],
    [
      'is paused also where the cache does not show the conversation yet',
      'PAUSED',
      (sandbox) => scene.show(sandbox),
    ],
    [
      'continues when the conversation was deleted',
      'RUNNING',
      (sandbox) => {
        scene.showConversation(asking);
        removeAsking();
        scene.show(sandbox);
      },
    ],
    [
      'continues when the conversation is deleted after the sandbox has asked',
      'RUNNING',
      (sandbox) => {
        scene.showConversation(asking);
        scene.show(sandbox);
        removeAsking();
      },
    ],
    [
      'continues when the conversation is being deleted',
      'RUNNING',
      (sandbox) => {
        scene.showConversation({
          ...asking,
          metadata: { ...asking.metadata, deletionTimestamp: noon },
        });
        scene.show(sandbox);
      },
    ],
  ];
  it.each(cases)('%s', async (_sentence, phase, arrange) => {
    await addWorking();
    arrange(await createAsking());
    await scene.clock.advance(0);
    expect(viewOfSandbox(await scene.stored('sbx-works')).phase).toBe(phase);
  });
});
