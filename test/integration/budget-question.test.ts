import { marker, ModelServer, finish, tool } from '../support/model-server.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { minOutputTokens } from '../../src/models/worst-case.ts';
import type { ApprovalRecord } from '../../src/gateway/presenters/approval.ts';

/** A dollar for a thousand tokens of answers: a completion of the model costs $0.002. */
const usdPerToken = 0.001;
/** Enough for one call; what the call leaves is less than the least that a call needs. */
const amount = minOutputTokens * usdPerToken + 0.001;

let model: ModelServer;
let up: Installation;
beforeAll(async () => {
  model = await ModelServer.start();
  up = await Installation.start({
    env: { LLM_MODEL: 'openai/m', LLM_BASE_URL: model.baseUrl, LLM_API_KEY: 'sk-of-the-platform' },
  });
  await patch('sandboxtemplate', 'default', {
    spec: {
      models: {
        prices: [{ model: 'm', inputPerMillion: 0, outputPerMillion: usdPerToken * 1_000_000 }],
      },
    },
  });
});
afterAll(async () => {
  await up.stop();
  await model[Symbol.asyncDispose]();
});

async function patch(kind: string, name: string, change: object): Promise<void> {
  const { code, stderr } = await kubectl(up.kubeconfig, [
    ...['patch', kind, name, '--type=merge', '-p', JSON.stringify(change)],
  ]);
  expect([code, stderr]).toEqual([0, '']);
}

const budget = (maxRaise: number) =>
  patch('conversationquota', 'default', { spec: { budget: { amount, maxRaise } } });

/** Starts a conversation whose second call of the model is refused; returns its id. */
async function stopped(script: string): Promise<string> {
  model.script(script, tool('echo first'), tool('echo second'), finish);
  const { id } = await up.start(`Work. ${marker(script)}`);
  const { app_conversation_id: conversation } = await up.over(id);
  return conversation ?? '';
}

const askedOf = (id: string): Promise<ApprovalRecord> =>
  eventually(`a question of ${id}`, async () => {
    const record = await up.conversation(id);
    return record.sandbox_status === 'PAUSED' && (record.pending_approval ?? false);
  });

const answer = (id: string, question: string, decision: 'approve' | 'reject') =>
  up.call('POST', `/api/v1/app-conversations/${id}/approvals/${question}`, { decision });

it('asks when the budget ends, and the run goes on with its context once its owner has raised it', async () => {
  await budget(1);
  const id = await stopped('raise');
  const question = await askedOf(id);
  expect(question).toMatchObject({
    kind: 'budget',
    complete: true,
    notice: null,
    title: expect.stringMatching(/^The budget is used up\. Continue with \$/) as string,
    summary: expect.stringContaining('has spent $0.002 of its budget of $0.017') as string,
  });
  expect(await up.conversation(id)).toMatchObject({
    sandbox_status_reason: 'budget-exhausted',
    execution_status: 'waiting_for_confirmation',
  });
  expect(model.requests('raise')).toHaveLength(1);
  const { status, body } = await answer(id, question.id, 'approve');
  expect([status, body]).toEqual([
    200,
    {
      success: true,
      state: 'recorded',
      notice: 'The budget is raised, and the run then continues where it was.',
    },
  ]);
  await up.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
  const requests = model.requests('raise');
  expect(requests).toHaveLength(3);
  // The call that was refused is made again, with the result of the first command.
  expect(requests[1]?.messages.at(-1)).toMatchObject({
    role: 'tool',
    content: expect.stringContaining('first') as string,
  });
});

it('lets a start wait without a sandbox under the policy Queue, and go on by itself after a raise', async () => {
  const limit = (of: number) =>
    patch('conversationquota', 'default', {
      spec: { budget: { amount: of, period: 'Week', onExceeded: 'Queue' } },
    });
  const get = async (...parts: string[]): Promise<string> =>
    (await kubectl(up.kubeconfig, ['get', ...parts])).stdout;
  await limit(1);
  model.script('spends', finish);
  const first = await up.start(`Work. ${marker('spends')}`);
  await up.over(first.id);
  await eventually('the cost of the first one', async () => {
    const { body } = await up.call('GET', '/api/v1/usage');
    return (body as { budget: { spent: number } }).budget.spent >= 0.002;
  });
  await limit(0.001);
  const before = await get('sandboxes', '-o', 'name');
  await eventually('the words about the next start', async () => {
    const { body } = await up.call('GET', '/api/v1/quota');
    const { next_start: next } = body as { next_start: { outcome: string; reason: string } };
    return next.outcome === 'waits' && next.reason.includes('your budget for models is used up');
  });
  model.script('waits', finish);
  const { id } = await up.start(`Work. ${marker('waits')}`);
  await eventually('the wait', async () => {
    const shown = await get('conversations', '-o', 'json');
    return shown.includes('Waiting for the budget, which begins anew at ');
  });
  expect(await get('conversations', '-o', 'wide')).toMatch(/WaitingForBudget/);
  expect(await get('sandboxes', '-o', 'name')).toBe(before);
  await limit(1);
  const { app_conversation_id: conversation } = await up.over(id);
  await up.reaches(conversation ?? '', { execution_status: 'finished' });
});
