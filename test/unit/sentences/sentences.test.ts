import type { Facts } from '../../../src/sentences/facts.ts';
import { sentenceOf } from '../../../src/sentences/sentences.ts';
import { aTask } from '../../support/page-records.ts';
import {
  asking,
  ended,
  failedCommand,
  lostAnswer,
  running,
  started,
  withSandbox,
} from './facts.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const at = (time: string) => `2026-01-01T${time}.000000Z`;
const other = '0'.repeat(31) + '2';
const around = { now, titleOf: (id: string) => (id === other ? 'Fix login' : undefined) };

const { pending_approval: question = null } = asking('make');
const forgotten = { pending_approval: question && { ...question, notice: 'It has to ask again.' } };

const cases: readonly (readonly [string, Facts, string])[] = [
  [
    'the command that the agent asks about',
    running({ ...asking('rm -rf build'), updated_at: at('11:59:00') }),
    'Asks whether it may run “rm -rf build”. Waiting for 12 min.',
  ],
  [
    'the question of a paused agent',
    withSandbox('PAUSED', 'quota', 'Paused 3 min ago.', asking('make')),
    'Asks whether it may run “make”. Paused 3 min ago.',
  ],
  [
    'that a paused agent has forgotten its question',
    withSandbox('PAUSED', 'quota', 'Paused 3 min ago.', forgotten),
    'Asks whether it may run “make”. It has to ask again. Paused 3 min ago.',
  ],
  [
    'that an answer was lost, before the end of the run',
    running({ ...lostAnswer, execution_status: 'finished', updated_at: at('10:00:00') }),
    'The answer “approve” to “make” had no effect: the agent was stopped. Send a message to continue. Done 2 h ago.',
  ],
  [
    'a question of the agent with how long it waits',
    running({
      execution_status: 'waiting_for_confirmation',
      execution_status_detail: 'Asks whether it may run `rm -rf build`.',
      updated_at: at('11:48:00'),
    }),
    'Asks whether it may run `rm -rf build`. Waiting for 12 min.',
  ],
  [
    'the error of a run and how to try again',
    running({ execution_status: 'error', execution_status_detail: 'The model refused the key' }),
    'The model refused the key. Send a message to try again.',
  ],
  [
    'a wait for the provider of the model, and how long it takes',
    running({ model_wait: { until: at('12:00:12'), reason: 'rate-limit' } }),
    "Waits for the model's rate limit, 12 s.",
  ],
  [
    'a wait for other calls of the key to its last moment',
    running({ model_wait: { until: '2026-01-01T12:00:00.001000Z', reason: 'share' } }),
    "Waits for its share of the model's key, 1 s.",
  ],
  [
    'no wait that is over',
    running({ model_wait: { until: at('12:00:00'), reason: 'share' }, updated_at: at('11:54:00') }),
    'Running. Last activity 6 min ago.',
  ],
  [
    'the last activity of a run',
    running({ updated_at: at('11:54:00') }),
    'Running. Last activity 6 min ago.',
  ],
  [
    'the end of a run with its pull request',
    running({ execution_status: 'finished', updated_at: at('10:00:00'), pr_number: [12] }),
    'Done 2 h ago. Pull request #12.',
  ],
  [
    'the end of a run with the state of its pull requests',
    running({
      execution_status: 'finished',
      updated_at: at('10:00:00'),
      pr_number: [12, 13],
      pull_requests: [
        {
          number: 13,
          url: 'https://git.example.com/13',
          provider: 'forgejo',
          title: 'Fix',
          head: 'agent/fix',
          base: 'main',
          draft: false,
          state: 'merged',
        },
      ],
    }),
    'Done 2 h ago. Pull request #12, #13 (merged).',
  ],
  [
    'what the agent said last',
    running(ended({ message: 'All tests pass' }, { pr_number: [12] })),
    'Done 2 h ago. Pull request #12. “All tests pass”.',
  ],
  [
    'that the last command of a run failed',
    running(ended(failedCommand)),
    'The last command failed: exit code 3. Ended 2 h ago. “Block 1 failed, so I stopped there.”',
  ],
  [
    'the result of a run whose sandbox is paused',
    withSandbox('PAUSED', 'idle', 'Paused as idle.', ended(failedCommand)),
    'Paused as idle. The last command failed: exit code 3. “Block 1 failed, so I stopped there.”',
  ],
  [
    'once that the agent has no model and did nothing',
    running(
      ended({
        reason: 'model-not-configured',
        detail: 'No model is configured.',
        message: 'No model is configured. I can only run shell code blocks.',
      }),
    ),
    'No model is configured. Ended 2 h ago.',
  ],
  [
    'that a run ended after a rejection',
    running(
      ended(
        { reason: 'tool-rejected', detail: 'The last tool call was rejected.' },
        { execution_status: 'idle' },
      ),
    ),
    'The last tool call was rejected. Waits for a message.',
  ],
  [
    'the stage of a start with its duration',
    started({ status: 'PREPARING_REPOSITORY', updated_at: at('11:59:19') }),
    'Cloning acme/app, 41 s.',
  ],
  [
    'the cause of a wait',
    withSandbox('STARTING', 'waiting-for-quota', 'Waiting for room: at most 2 may be active.'),
    'Waiting for room: at most 2 may be active.',
  ],
  [
    'the title of the conversation for which it was paused',
    withSandbox('PAUSED', 'quota', `Paused to make room for conversation ${other}; limit 1.`),
    'Paused to make room for “Fix login”; limit 1.',
  ],
  [
    'that a budget is used up, and what its owner can do',
    withSandbox('PAUSED', 'budget-exhausted'),
    'Paused: its budget is used up. An admin can raise the budget; one of a day, week or month also starts again by itself.',
  ],
  [
    'what continues a run whose budget nobody has raised',
    withSandbox('PAUSED', 'budget-exhausted', 'Paused: the budget is used up.', {
      execution_status_detail: 'The answer was to stop here. A message continues the run.',
    }),
    'Paused: the budget is used up. The answer was to stop here. A message continues the run.',
  ],
  [
    'the question about a budget that is used up instead, which says why it is paused',
    withSandbox('PAUSED', 'budget-exhausted', 'Paused: the budget is used up.', {
      pending_approval: question && {
        ...question,
        kind: 'budget',
        title: 'The budget is used up. Continue with $5 more?',
        summary: 'Continue with $5 more? Model calls have spent $5 of the budget of $5.',
      },
    }),
    'Continue with $5 more? Model calls have spent $5 of the budget of $5.',
  ],
  [
    'the cause of a failed start, and how its owner mends it',
    {
      ...withSandbox('ERROR', 'branch-not-found'),
      task: {
        ...startedTask(),
        status: 'ERROR',
        error: 'The repository acme/app has no branch dev.',
      },
    },
    'The repository acme/app has no branch dev. Choose another branch.',
  ],
  [
    'whom to ask where its owner can mend nothing',
    withSandbox('ERROR', 'image-pull-failed', 'The image can not be pulled: not found.'),
    'The image can not be pulled: not found. Ask the operators of this service (template default).',
  ],
  [
    'that the sandbox is gone',
    withSandbox('MISSING', 'deleted', null, { updated_at: at('09:00:00') }),
    'The sandbox does not exist any more. Last activity 3 h ago.',
  ],
];

function startedTask() {
  const { task } = started();
  if (task === undefined) throw new Error('a start has a task');
  return task;
}

it.each(cases)('states %s', (_what, facts, sentence) => {
  expect(sentenceOf(facts, around)).toBe(sentence);
});

it('states what a resume would pause', () => {
  const facts = withSandbox('PAUSED', 'user', 'Paused by its owner.');
  expect(sentenceOf(facts, { now, resumePauses: '“Fix login”' })).toBe(
    'Paused by its owner. Resume now would pause “Fix login”.',
  );
});

it('states the place of a sandbox that waits', () => {
  const facts = withSandbox('STARTING', 'waiting-for-quota', 'Waiting for room: at most 2.');
  const placeOf = (id: string) => (id === 'sbx-1' ? '2nd of 4.' : undefined);
  expect(sentenceOf(facts, { now, placeOf })).toBe('2nd of 4. Waiting for room: at most 2.');
});

it('is the start of a conversation, as long as that is under way in a sandbox that runs', () => {
  const facts: Facts = { ...running(), task: aTask(1, { status: 'PREPARING_REPOSITORY' }) };
  expect(sentenceOf(facts, { now: Date.now() })).toMatch(/^(?:Cloning|Preparing)/);
});
