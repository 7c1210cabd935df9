import { newUuid } from '@conversation-operator/base/uuid';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, type Answer } from '../../support/gateway/test-gateway.ts';
import { HeldClock } from '../../support/held-clock.ts';

const time = '2026-01-01T00:00:00Z';
const ready = (sandboxName: string): ConversationStatus => ({
  start: { status: 'READY', transitions: [{ status: 'READY', time }] },
  sandboxName,
});
const events = (id: string) => `/api/v1/conversation/${id}/events/search`;
const page = { items: [], next_page_id: null };
/** Maximum times of a read at the agent and in the queue, which pass only when a test says so. */
const [firstByteMs, queueMs] = [2_000, 501];

describe("one owner's agent that takes connections and answers nothing", () => {
  let gateway: TestGateway;
  let silent: StubAgent;
  let lively: StubAgent;
  /** Alice's conversations in the silent agent's sandbox. */
  let ids: readonly string[];
  let others: readonly [ofAlice: string, ofBob: string];
  let reads: Promise<Answer>[];
  let clock: HeldClock;

  const add = async (
    owner: 'alice' | 'bob',
    sandboxName: string,
    agent: StubAgent,
    count: number,
  ): Promise<readonly string[]> => {
    await gateway.addSandbox(sandboxName, { owner, status: agent.status });
    const own = Array.from({ length: count }, () => newUuid(Date.now()));
    for (const id of own)
      await gateway.addConversation(id, {
        spec: { owner, sandboxName },
        status: ready(sandboxName),
      });
    return own;
  };

  beforeEach(async () => {
    [silent, lively] = await Promise.all([StubAgent.start(), StubAgent.start()]);
    silent.answer = () => undefined;
    lively.answer = (_request, response) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(page));
    clock = new HeldClock(firstByteMs, queueMs);
    gateway = await TestGateway.start({
      clock,
      eventsFirstByteMs: firstByteMs,
      pools: { eventReads: { queue: { maxMs: queueMs, total: 512, perOwner: 128 } } },
    });
    ids = await add('alice', 'sbx-silent', silent, 200);
    const [ofAlice = ''] = await add('alice', 'sbx-alice', lively, 1);
    const [ofBob = ''] = await add('bob', 'sbx-bob', lively, 1);
    others = [ofAlice, ofBob];
  });
  afterEach(async () => {
    await silent.stop();
    await Promise.all(reads);
    await gateway.stop();
    await lively.stop();
  });

  /** The answers of all reads, once their times have passed. */
  const allAnswers = async (): Promise<readonly Answer[]> => {
    let isOver = false;
    const answers = Promise.all(reads).finally(() => (isOver = true));
    await eventually('every read is over', () => {
      clock.pass();
      return isOver;
    });
    return answers;
  };
  const seen = () => silent.connections.size;

  it('delays no other read of events: its own reads have a share, however many there are', async () => {
    const [id = ''] = ids;
    reads = Array.from({ length: 64 }, () => gateway.get(events(id)));
    await eventually('all of them wait', () => clock.held === reads.length);
    const [ofAlice, ofBob] = others;
    // No time passes for those that wait, so these do not wait for any of them.
    expect(await gateway.get(events(ofBob), { key: gateway.bob })).toMatchObject({ status: 200 });
    expect(await gateway.get(events(ofAlice))).toMatchObject({ status: 200 });
    expect(seen()).toBeLessThanOrEqual(4);
    const answers = await allAnswers();
    const codes = new Set(
      answers.map(({ status, json }) => `${status} ${(json as { code: string }).code}`),
    );
    expect(codes).toContain('504 agent-timeout');
    expect(codes).toContain('503 agent-busy');
    // Two requests waited until the first ones had given up.
    expect([...codes].filter((code) => !code.endsWith('agent-silent'))).toHaveLength(2);
  });

  it('is known for it: the next reads are refused at once, until it is worth asking again', async () => {
    const [id = ''] = ids;
    reads = [gateway.get(events(id))];
    await eventually('the agent is asked', () => clock.held === 1);
    clock.pass();
    expect(await reads[0]).toMatchObject({ status: 504, json: { code: 'agent-timeout' } });
    // A read that asked the agent would have no end, because no time passes.
    const again = await gateway.get(events(id));
    expect(again).toMatchObject({ status: 503, json: { code: 'agent-silent' } });
    expect(Number(again.headers['retry-after'])).toBeGreaterThan(0);
  });

  it("delays no other owner's reads and starts with 200 conversations in its sandbox, all read and written to", async () => {
    const message = { content: [{ type: 'text', text: 'Hello' }] };
    reads = ids.flatMap((id) => [
      gateway.get(events(id)),
      gateway.post(`/api/v1/app-conversations/${id}/send-message`, message),
    ]);
    await eventually('the agent is asked', () => clock.held > 0);
    const [, ofBob] = others;
    const start = () =>
      gateway.post('/api/v1/app-conversations', { initial_message: message }, { key: gateway.bob });
    expect(await gateway.get(events(ofBob), { key: gateway.bob })).toMatchObject({ status: 200 });
    expect(await start()).toMatchObject({ status: 200 });
    expect(seen()).toBeLessThanOrEqual(4);
    const statuses = new Set((await allAnswers()).map(({ status }) => status));
    expect([...statuses].sort()).toEqual([202, 503, 504]);
  });
});
