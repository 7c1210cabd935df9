import { IndexedStore } from '@conversation-operator/kube/store';
import { workingConversations } from '../../../../src/gateway/callback-server/working-conversations.ts';
import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { StartStatus } from '../../../../src/resources/conversation-status.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox, noon } from '../../../support/builders.ts';
import { quietCache } from '../../../support/gateway/quiet-cache.ts';

const sandbox = aSandbox();

interface Wish {
  readonly owner?: string;
  readonly sandboxName?: string;
  readonly sandboxUID?: string | undefined;
  readonly start?: StartStatus | undefined;
  readonly isDeleting?: boolean;
}

/** Whether a conversation is at work in a sandbox. */
function isAtWork(wish: Wish, where: Sandbox = sandbox): boolean {
  const { owner = 'alice', sandboxName = sandbox.metadata.name, isDeleting = false } = wish;
  const { sandboxUID = sandbox.metadata.uid, start = 'READY' } = wish;
  const conversations = new IndexedStore<CachedConversation>(gatewayIndexers.conversations);
  const conversation = aConversation({
    spec: { owner },
    status: {
      sandboxName,
      ...('sandboxUID' in wish && wish.sandboxUID === undefined ? {} : { sandboxUID }),
      ...('start' in wish && wish.start === undefined
        ? {}
        : { start: { status: start, transitions: [] } }),
    },
  });
  const { metadata } = conversation;
  conversations.set({
    ...conversation,
    metadata: isDeleting ? { ...metadata, deletionTimestamp: noon } : metadata,
  });
  return workingConversations(quietCache(conversations), where).length > 0;
}

it.each<[string, Wish, boolean]>([
  ['that is ready', {}, true],
  ['whose repository is prepared', { start: 'PREPARING_REPOSITORY' }, true],
  ['whose skills are set up', { start: 'SETTING_UP_SKILLS' }, true],
  ['whose start has just begun', { start: 'WORKING' }, false],
  ['that waits for its sandbox', { start: 'WAITING_FOR_SANDBOX' }, false],
  ['whose start has failed', { start: 'ERROR' }, false],
  ['without a start', { start: undefined }, false],
  ['of another owner', { owner: 'bob' }, false],
  ['of another sandbox', { sandboxName: 'sbx-2' }, false],
  ['of an earlier sandbox of the name', { sandboxUID: 'another' }, false],
  ['that does not say which sandbox of the name', { sandboxUID: undefined }, false],
  ['that is being deleted', { isDeleting: true }, false],
])('a conversation %s is at work: %j, %s', (_sentence, wish, expected) => {
  expect(isAtWork(wish)).toBe(expected);
});

it('no conversation is at work in a paused sandbox', () => {
  expect(isAtWork({}, aSandbox({ replicas: 0 }))).toBe(false);
});
