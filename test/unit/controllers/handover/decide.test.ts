import {
  decideHandover,
  type ObservedHandover,
} from '../../../../src/controllers/handover/decide.ts';
import { aConversation, aSandbox } from '../../../support/builders.ts';

const lock = { handover: { name: 'offer', to: 'bob' } };
const status = { start: { status: 'READY' as const, transitions: [] } };
const conversation = (spec: object = {}) => aConversation({ spec, status });
const sandbox = (spec: object = {}) => {
  const made = aSandbox();
  return { ...made, spec: { ...made.spec, ...spec } };
};

const observed = (wish: Partial<ObservedHandover>): ObservedHandover => ({
  handover: {
    metadata: { name: 'offer', namespace: 'default', uid: 'offer' },
    spec: {
      conversation: { name: conversation().metadata.name, uid: conversation().metadata.uid },
      from: 'alice',
      to: 'bob',
      expirationTime: '2100-01-01T00:00:00Z',
      answer: { value: 'Accepted', by: 'bob', time: '2027-01-01T00:00:00Z' },
    },
  } as unknown as ObservedHandover['handover'],
  conversation: conversation(),
  sandbox: sandbox(),
  claim: undefined,
  isStopped: false,
  isShared: false,
  noRoom: undefined,
  now: Date.parse('2027-01-01T00:00:00Z'),
  ...wish,
});
const locked = { conversation: conversation(lock), sandbox: sandbox(lock) };
const movedSandbox = sandbox({ owner: 'bob', ...lock });

it.each<[string, Partial<ObservedHandover>, string]>([
  ['nothing has been done', {}, 'lock-conversation'],
  ['the new owner has no room', { noRoom: 'full' }, 'refuse'],
  ['others use the sandbox', { isShared: true }, 'refuse'],
  ['the conversation is locked', { conversation: locked.conversation }, 'lock-sandbox'],
  ['its agent runs', locked, 'wait-for-pause'],
  ['its agent has stopped', { ...locked, isStopped: true }, 'move-sandbox'],
  ['the sandbox has moved', { ...locked, sandbox: movedSandbox }, 'move-conversation'],
  [
    'both have moved',
    { conversation: conversation({ owner: 'bob' }), sandbox: movedSandbox },
    'unlock-sandbox',
  ],
  [
    'both are free',
    { conversation: conversation({ owner: 'bob' }), sandbox: sandbox({ owner: 'bob' }) },
    'done',
  ],
])('an accepted handover, where %s', (_name, wish, kind) => {
  expect(decideHandover(observed(wish)).kind).toBe(kind);
});
