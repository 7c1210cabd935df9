import type { Facts } from '../../../src/sentences/facts.ts';
import { replyOf } from '../../../src/sentences/sentences.ts';
import { aConversation, aTask } from '../../support/page-records.ts';
import { running, withSandbox } from './facts.ts';

const failedStart: Facts = {
  conversation: aConversation(1, { sandbox_status: 'ERROR' }),
  task: aTask(1, { status: 'ERROR' }),
};

it.each<readonly [string, Facts, boolean, string]>([
  ['an agent that runs', running(), true, 'Write to the agent'],
  ['a start', withSandbox('STARTING', 'waiting-for-pod'), true, 'Write to the agent'],
  [
    'a paused one',
    withSandbox('PAUSED', 'user'),
    true,
    'Write to the agent. A message resumes the conversation.',
  ],
  [
    'one that has failed after it has run',
    withSandbox('ERROR', 'crash-loop'),
    true,
    'Write to the agent. A message starts its sandbox again.',
  ],
  [
    'a start that has failed',
    failedStart,
    false,
    'The start has failed: no agent takes messages here.',
  ],
  [
    'one without its sandbox',
    withSandbox('MISSING', 'deleted'),
    false,
    'The sandbox with the agent is deleted: you can read this conversation, not continue it.',
  ],
])('says for %s whether it takes messages', (_state, facts, isPossible, text) => {
  const reply = replyOf(facts);
  expect([reply.isPossible, reply.isPossible ? reply.placeholder : reply.why]).toEqual([
    isPossible,
    text,
  ]);
});
