import { hookMs, startMs } from '../support/agent-service.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { partOf } from '../support/part.ts';
import { AcpAgents, names as allNames } from './support/acp-agents.ts';
import { answerTo, scriptTask } from './support/mock-models.ts';

const names = partOf(allNames);
/** An answer of the mock has 5 tokens of $0.001 each. A call needs 16, so that seven calls fit. */
const maxCost = 0.05;
const steps = 12;

let agents: AcpAgents;
let metricsPort: number;

beforeAll(async () => {
  metricsPort = await freePort();
  agents = await AcpAgents.start({
    METRICS_PORT: String(metricsPort),
    MODELS_PRICES: JSON.stringify([{ model: 'm', inputPerMillion: 0, outputPerMillion: 1000 }]),
  });
}, hookMs);
afterEach(async () => {
  await agents.expectKeyless();
  await agents.removeAll();
}, startMs);
afterAll(() => agents.stopKeyless(), hookMs);

/** Calls that the relay has refused because of a budget. */
async function refusals(): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const [, count = '0'] = /model_refusals_total\{reason="budget"\} (\d+)/.exec(text) ?? [];
  return Number(count);
}

it.each(names)(
  '%s stops at the end of its budget with at most two more calls, and continues with its context after a raise',
  async (name) => {
    const about = `budget-${name}`;
    // Gemini ends a turn that repeats one command.
    const commandOf = (step: number): string => `echo ${step} >> steps.txt`;
    agents.models.script(
      about,
      ...Array.from({ length: steps }, (_, step) => ({ command: commandOf(step) })),
    );
    const before = await refusals();
    const { id, sandbox } = await agents.begin(`Work. ${scriptTask(about)}`, {
      sandbox_spec_id: name,
      confirmation_policy: 'NeverConfirm',
      max_cost: maxCost,
    });
    const question = await eventually(
      `the question of ${name}`,
      async () => {
        const record = await agents.up.conversation(id);
        return record.sandbox_status === 'PAUSED' && (record.pending_approval ?? undefined);
      },
      startMs,
    );
    expect(question).toMatchObject({ kind: 'budget', complete: true });
    const refused = (await refusals()) - before;
    expect(refused).toBeGreaterThan(0);
    expect(refused).toBeLessThanOrEqual(3);
    expect((await agents.file(sandbox, 'steps.txt')).split('\n').length).toBeLessThan(steps);
    const path = `/api/v1/app-conversations/${id}/approvals/${question.id}`;
    const { status } = await agents.up.call('POST', path, { decision: 'approve' });
    expect(status).toBe(200);
    await agents.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    const messages = JSON.stringify(await agents.events(id, '&kind=MessageEvent'));
    expect(messages).toContain(answerTo('nothing'));
    expect(agents.models.notes().at(-1)?.body).toContain(scriptTask(about));
    process.stdout.write(`${name}: ${refused} refused calls at the end of its budget\n`);
  },
);
