import { IndexedStore } from '@conversation-operator/kube/store';
import { conversationIndexers, sandboxIndexers } from '../../../../src/controllers/caches.ts';
import { RetentionSubjects } from '../../../../src/controllers/retention/subjects.ts';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { conversations as conversationKind } from '../../../../src/resources/conversation.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import { sandboxTemplates } from '../../../../src/resources/sandbox-template.ts';
import { sandboxes as sandboxKind, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox, aTemplate, condition, noon } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

it.each<[string, string, 'Paused' | undefined]>([
  ['does not go while a run in it is interrupted', 'uid-of-sbx-1', undefined],
  ['goes, whatever is left of an earlier sandbox of its name', 'uid-of-an-earlier-one', 'Paused'],
])('a sandbox that the quota has paused %s', async (_sentence, sandboxUID, rule) => {
  const client = new FakeKubeClient();
  const stores = {
    conversations: new IndexedStore<CachedConversation>(conversationIndexers),
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
  };
  const sandbox = aSandbox({
    status: {
      replicas: 0,
      pauseTime: noon,
      conditions: [{ ...condition('Admitted', 'False', 'Quota'), observedGeneration: 1 }],
    },
  });
  const conversation = aConversation({
    status: {
      start: { status: 'READY', transitions: [] },
      executionStatus: 'running',
      sandboxName: 'sbx-1',
      sandboxUID,
    },
  });
  const template = aTemplate({ retention: { paused: '1h' } });
  client.put(sandboxKind, sandbox);
  client.put(conversationKind, conversation);
  client.put(sandboxTemplates, template);
  stores.conversations.set(conversation);
  stores.templates.set(template);
  const subjects = new RetentionSubjects({ client, stores, clock: new VirtualClock() });
  expect(subjects.ofSandbox(sandbox).countdown?.rule).toBe(rule);
  const stored = await subjects.stored(sandbox, new AbortController().signal);
  expect(stored?.countdown?.rule).toBe(rule);
});
