import type { TestedMutant } from './tested-mutant.ts';

const model = {
  test: 'test/simulation/handover/handover-model.test.ts',
  name: 'a handover keeps its promises',
};
const decision = { ...model, file: 'src/controllers/handover/decide.ts' };
const steps = { ...model, file: 'src/controllers/handover/reconcile.ts' };

/** Mistakes of a move to another owner; each name is the mistake. */
export const handoverMutants: Readonly<Record<string, TestedMutant>> = {
  'a sandbox moves while its agent runs': {
    ...decision,
    test: 'test/unit/controllers/handover/decide.test.ts',
    name: 'an accepted handover, where its agent runs',
    from: "isStopped ? { kind: 'move-sandbox' } : { kind: 'wait-for-pause' }",
    to: "isStopped || sandbox !== undefined ? { kind: 'move-sandbox' } : { kind: 'wait-for-pause' }",
  },
  'a conversation moves without its sandbox': {
    ...decision,
    from: 'if (sandbox !== undefined && sandbox.spec.owner !== to) {',
    to: 'if (sandbox !== undefined && sandbox.spec.owner === to && isStopped) {',
  },
  'the quota of the new owner is not checked': {
    ...decision,
    from: 'if (noRoom !== undefined)',
    to: "if (noRoom === '')",
  },
  'an answer of the old owner moves': {
    ...decision,
    from: "? { kind: 'move-conversation' } : { kind: 'drop-answer' }",
    to: "? { kind: 'move-conversation' } : { kind: 'move-conversation' }",
  },
  'the volume keeps its old owner': {
    ...decision,
    from: "return { kind: 'move-claim' };",
    to: "return { kind: 'move-conversation' };",
  },
  'the lock of a refused handover stays': {
    ...decision,
    from: "if (isLocked(observed, observed.conversation)) return { kind: 'unlock-conversation' };",
    to: '',
  },
  'the keys of a sandbox stay': {
    ...steps,
    from: '(sandbox?.spec.handovers ?? 0) + 1',
    to: '(sandbox?.spec.handovers ?? 0)',
  },
  'the secrets of the start move': { ...steps, from: 'secrets: null,', to: '' },
  'messages that wait move': { ...steps, from: 'messages: null,', to: '' },
  'a link of an earlier owner opens again': {
    test: 'test/unit/resources/share.test.ts',
    name: 'opens the conversation that was shared alone',
    file: 'src/resources/share.ts',
    from: '(spec.handovers ?? 0) === (shared.handovers ?? 0)',
    to: 'true',
  },
  'a sandbox moves in which other conversations are': {
    ...steps,
    from: 'this.#isShared(sandbox, conversation)',
    to: "conversation.metadata.name === ''",
  },
  'the locks of a deleted handover stay': {
    ...steps,
    from: 'stored ?? (await this.#orphaned({ namespace, name }, signal))',
    to: 'stored',
  },
  'a late message of the old owner reaches the new one': {
    test: 'test/unit/gateway/conversations/message-queue.moved.test.ts',
    name: 'a late message of the former owner',
    file: 'src/gateway/conversations/message-queue.ts',
    from: "refuseMoved('conversation', stored, conversation);",
    to: '',
  },
  'a late resume of the old owner counts': {
    test: 'test/unit/gateway/sandboxes/resume.test.ts',
    name: 'a late resume of the former owner changes nothing',
    file: 'src/gateway/sandboxes/resume.ts',
    from: 'spec: { owner, replicas: 1 }',
    to: 'spec: { replicas: 1 }',
  },
};
