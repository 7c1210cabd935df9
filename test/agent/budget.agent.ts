import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs, startMs } from './support/agents.ts';

/** A call needs 16 tokens of $0.001 each, and costs two: the second one is too dear. */
const maxCost = 0.017;

let agents: Agents;
let metricsPort: number;
beforeAll(async () => {
  metricsPort = await freePort();
  agents = await Agents.start({
    METRICS_PORT: String(metricsPort),
    MODELS_PRICES: JSON.stringify([{ model: 'm', inputPerMillion: 0, outputPerMillion: 1000 }]),
  });
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

async function refusals(): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const [, count = '0'] = /model_refusals_total\{reason="budget"\} (\d+)/.exec(text) ?? [];
  return Number(count);
}

it('stops at the end of its budget with at most two more calls, and continues with its context after a raise', async () => {
  agents.model.script('budget', tool('echo first'), tool('echo second'), finish);
  const { id } = await agents.begin(`Work. ${marker('budget')}`, { max_cost: maxCost });
  const question = await eventually(
    'the question',
    async () => {
      const record = await agents.up.conversation(id);
      return record.sandbox_status === 'PAUSED' && (record.pending_approval ?? undefined);
    },
    startMs,
  );
  expect(question).toMatchObject({ kind: 'budget', complete: true });
  expect(await refusals()).toBeGreaterThan(0);
  expect(await refusals()).toBeLessThanOrEqual(3);
  // The agent asks for a title and for the first step at once, and the budget is enough for one.
  expect([...agents.model.titles, ...agents.model.requests('budget')]).toHaveLength(1);
  const path = `/api/v1/app-conversations/${id}/approvals/${question.id}`;
  const { status } = await agents.up.call('POST', path, { decision: 'approve' });
  expect(status).toBe(200);
  await agents.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
  const requests = agents.model.requests('budget');
  expect(requests).toHaveLength(3);
  // The call that was refused is made again, with the result of the first command.
  expect(requests[1]?.messages.at(-1)?.content).toContain('first');
});
