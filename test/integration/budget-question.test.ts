import { z } from 'zod';
import { marker, ModelServer, finish, tool, type ModelAnswer } from '../support/model-server.ts';
import { eventually } from '../support/eventually.ts';
import { Installation, saying } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { RestUser } from '../support/rest-user.ts';
import { shiftableClock, shiftClock } from '../support/shifted-clock.ts';
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
    env: {
      LLM_MODEL: 'openai/m',
      LLM_BASE_URL: model.baseUrl,
      LLM_API_KEY: 'sk-of-the-platform',
      ...shiftableClock,
    },
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

const budget = (maxRaise: number, more: object = {}) =>
  patch('conversationquota', 'default', { spec: { budget: { amount, maxRaise, ...more } } });

/** An owner who has spent nothing yet. */
async function userOf(owner: string, more: object = {}): Promise<RestUser> {
  const { body } = await up.call('POST', '/api/keys', { name: `of ${owner}`, owner, ...more });
  return new RestUser({ url: up.url, key: z.looseObject({ key: z.string() }).parse(body).key });
}

/** Starts a conversation whose second call of the model is refused; returns its id. */
async function stopped(
  user: RestUser,
  script: string,
  { second = tool('echo second'), ...more }: { second?: ModelAnswer; max_cost?: number } = {},
): Promise<string> {
  model.script(script, tool('echo first'), second, finish);
  const { id } = await user.start(`Work. ${marker(script)}`, more);
  const { app_conversation_id: conversation } = await user.over(id);
  return conversation ?? '';
}

/** The question of a conversation, another one than `before`. */
const askedOf = (user: RestUser, id: string, before?: string): Promise<ApprovalRecord> =>
  eventually(`a question of ${id}`, async () => {
    const { sandbox_status: status, pending_approval: question } = await user.conversation(id);
    return status === 'PAUSED' && question !== null && question.id !== before && question;
  });

const answer = (user: RestUser, id: string, question: string, decision: 'approve' | 'reject') =>
  user.call('POST', `/api/v1/app-conversations/${id}/approvals/${question}`, { decision });

const continued = { sandbox_status: 'RUNNING', execution_status: 'finished' } as const;

const anyText = expect.any(String) as string;

/** The accounts of an owner's budgets. */
async function accountsOf(owner: string): Promise<readonly unknown[]> {
  const { stdout } = await kubectl(up.kubeconfig, ['get', 'usagerecords', '-o', 'json']);
  const { items } = recordList.parse(JSON.parse(stdout));
  return items
    .filter(({ spec }) => spec.owner === owner)
    .flatMap(({ status }) => status?.accounts ?? []);
}
const recordList = z.object({
  items: z.array(
    z.object({
      spec: z.looseObject({ owner: z.string().optional() }),
      status: z.looseObject({ accounts: z.array(z.looseObject({})).optional() }).optional(),
    }),
  ),
});

it('asks when the budget ends, and the run goes on with its context once its owner has raised it', async () => {
  await budget(1);
  const id = await stopped(up, 'raise');
  const question = await askedOf(up, id);
  expect(question).toMatchObject({
    kind: 'budget',
    complete: true,
    notice: null,
    title: expect.stringMatching(/^The budget is used up\. Continue with \$/) as string,
    summary: expect.stringContaining('has spent $0.002 of the budget of $0.017') as string,
  });
  expect(await up.conversation(id)).toMatchObject({
    sandbox_status_reason: 'budget-exhausted',
    execution_status: 'waiting_for_confirmation',
  });
  expect(model.requests('raise')).toHaveLength(1);
  const { status, body } = await answer(up, id, question.id, 'approve');
  expect([status, body]).toEqual([
    200,
    {
      success: true,
      state: 'recorded',
      notice: 'The budget is raised, and the run then continues where it was.',
    },
  ]);
  await up.reaches(id, continued);
  const requests = model.requests('raise');
  expect(requests).toHaveLength(3);
  // The call that was refused is made again, with the result of the first command.
  expect(requests[1]?.messages.at(-1)).toMatchObject({
    role: 'tool',
    content: expect.stringContaining('first') as string,
  });
});

it('stays paused after a rejection, and asks again when a message needs the budget', async () => {
  await budget(1);
  const alice = await userOf('alice');
  const id = await stopped(alice, 'reject');
  const question = await askedOf(alice, id);
  expect(await answer(alice, id, question.id, 'reject')).toMatchObject({
    status: 200,
    body: {
      success: true,
      state: 'recorded',
      notice: 'The conversation stays paused. A message continues it as far as the budget allows.',
    },
  });
  const record = await alice.reaches(id, { pending_approval: null, execution_status: 'paused' });
  expect(record).toMatchObject({
    sandbox_status: 'PAUSED',
    execution_status_detail: expect.stringMatching(
      /^The answer was to stop here\. A message continues/,
    ) as string,
  });
  expect((await answer(alice, id, question.id, 'approve')).status).toBe(409);
  const message = await alice.call('POST', `/api/v1/app-conversations/${id}/send-message`, {
    ...saying('Go on.').initial_message,
    run: true,
  });
  expect(message.status).toBe(202);
  const again = await askedOf(alice, id, question.id);
  expect(model.requests('reject')).toHaveLength(1);
  await answer(alice, id, again.id, 'approve');
  await alice.reaches(id, continued);
  // The run of the message, not the one that was stopped.
  expect(model.requests('reject')[1]?.messages.at(-1)).toMatchObject({
    role: 'user',
    content: expect.stringContaining('Go on.') as string,
  });
});

it('lets only an administrator raise the budget beyond maxRaise, and says so', async () => {
  await budget(0);
  const bob = await userOf('bob');
  const id = await stopped(bob, 'admin');
  const question = await askedOf(bob, id);
  expect(question.summary).toContain('An administrator has to allow this.');
  expect(question.decided_by).toBe('Admin');
  expect(await answer(bob, id, question.id, 'approve')).toMatchObject({
    status: 403,
    body: { code: 'forbidden', detail: 'Only a key with the role admin can allow this raise.' },
  });
  expect((await bob.conversation(id)).pending_approval).toEqual(question);
  expect(await accountsOf('bob')).toEqual([expect.not.objectContaining({ raised: anyText })]);
  const admin = await userOf('bob', { role: 'admin' });
  expect((await answer(admin, id, question.id, 'approve')).status).toBe(200);
  await bob.reaches(id, continued);
  const raise = { id: question.id, amount: String(amount), admin: true, by: 'bob', time: anyText };
  expect(await accountsOf('bob')).toEqual([
    expect.objectContaining({ raised: String(amount), raises: [raise] }),
  ]);
});

it.each([
  {
    own: amount,
    ofOwner: 1,
    asks: /^Continue with \$\S+ more\? This conversation has spent /,
    max: 2 * amount,
    raises: 0,
  },
  {
    own: 1,
    ofOwner: amount,
    asks: /^Continue with \$\S+ more\? The owner carol-1 has spent /,
    max: 1,
    raises: 1,
  },
])(
  'ends with the smaller one of max_cost $own and a budget of $ofOwner, and raises that one alone',
  async ({ own, ofOwner, asks, max, raises }) => {
    await budget(1, { amount: ofOwner });
    const owner = `carol-${raises}`;
    const carol = await userOf(owner);
    const id = await stopped(carol, owner, { max_cost: own });
    const question = await askedOf(carol, id);
    expect(question.summary).toMatch(asks);
    await answer(carol, id, question.id, 'approve');
    await carol.reaches(id, continued);
    const { stdout } = await kubectl(up.kubeconfig, [
      ...['get', 'conversation', id, '-o', 'jsonpath={.spec.budget.amount}'],
    ]);
    expect(Number(stdout)).toBe(max);
    const accounts = (await accountsOf(owner)) as readonly { raises?: readonly unknown[] }[];
    expect(accounts.flatMap((account) => account.raises ?? [])).toHaveLength(raises);
  },
);

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
    return shown.includes('Waiting for the budget, which starts again at ');
  });
  expect(await get('conversations', '-o', 'wide')).toMatch(/WaitingForBudget/);
  expect(await get('sandboxes', '-o', 'name')).toBe(before);
  await limit(1);
  const { app_conversation_id: conversation } = await up.over(id);
  await up.reaches(conversation ?? '', { execution_status: 'finished' });
});

// The last one, because the clock stays where it was set.
it('goes on by itself when the next period begins', async () => {
  // The day of this zone ends within 30 to 90 minutes.
  const [hour, minute] = [new Date().getUTCHours(), new Date().getUTCMinutes()];
  const midnight = (hour + (minute < 30 ? 1 : 2)) % 24;
  const behind = midnight > 12 ? midnight - 24 : midnight;
  await budget(0, { period: 'Day', timeZone: `Etc/GMT${behind < 0 ? '' : '+'}${behind}` });
  const dave = await userOf('dave');
  const id = await stopped(dave, 'period', { second: finish });
  const { summary } = await askedOf(dave, id);
  const [, day = '', time = ''] = /starts again at (\S+) (\S+) UTC\.$/.exec(summary) ?? [];
  const leftMs = Date.parse(`${day}T${time}Z`) - Date.now();
  expect(leftMs).toBeGreaterThan(29 * 60_000);
  expect(leftMs).toBeLessThan(91 * 60_000);
  shiftClock(up, leftMs - 2_000);
  // Has the operator look at the clock.
  await patch('conversation', id, { spec: { title: 'Shortly before midnight' } });
  await dave.reaches(id, { title: 'Shortly before midnight', sandbox_status: 'PAUSED' });
  expect(model.requests('period')).toHaveLength(1);
  await dave.reaches(id, continued);
  expect(model.requests('period')).toHaveLength(2);
  const accounts = (await accountsOf('dave')) as readonly { key: string }[];
  expect(new Set(accounts.map(({ key }) => key)).size).toBe(2);
});
