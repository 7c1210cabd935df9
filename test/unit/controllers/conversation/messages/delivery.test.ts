import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';
import type {
  AgentClient,
  AgentConversation,
  AgentMessage,
  AgentUserMessage,
} from '../../../../../src/agent/agent.ts';
import { AgentError, type AgentErrorCode } from '../../../../../src/agent/errors.ts';
import { Delivery } from '../../../../../src/controllers/conversation/messages/delivery.ts';
import type { EventDetails } from '@conversation-operator/kube/events';
import { ApiError } from '@conversation-operator/kube/errors';
import { silentLogger } from '@conversation-operator/base/logger';
import type { CachedConversation } from '../../../../../src/resources/cached-conversation.ts';
import type { Conversation, LaterMessage } from '../../../../../src/resources/conversation.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../../../src/resources/conversation-status.ts';
import { aConversation, noonMs } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const messages = (...texts: string[]): LaterMessage[] =>
  texts.map((text, index) => ({
    number: index + 1,
    id: `m${index}`,
    role: 'user',
    content: [{ type: 'text', text }],
    run: true,
  }));

type Outcome = 'takes' | 'takes, and its answer is lost' | AgentErrorCode;

/** One agent with one conversation, and the operators that talk to it. */
class Bench {
  readonly clock = new VirtualClock(noonMs);
  readonly heard: string[] = ['first'];
  hasRun = false;
  readonly events: EventDetails[] = [];
  /** Outcomes of the next messages; after that all are taken. */
  readonly outcomes: Outcome[] = [];
  executionStatus: ExecutionStatus = 'finished';
  container = 'one';
  /** The conversation that the API server has stored. */
  conversation: Conversation & CachedConversation;
  /** Called before the mark of a delivery is stored. */
  onStore: (status: ConversationStatus) => void | Promise<void> = () => undefined;
  operator = this.another();

  constructor(...texts: string[]) {
    this.conversation = aConversation({
      spec: { messages: messages(...texts) },
      status: { executionStatus: 'finished', start: { status: 'READY', transitions: [] } },
    });
  }

  /** A process that knows nothing of what others have seen. */
  another(): Delivery {
    const see = (text: string, index: number): AgentUserMessage => ({
      id: String(index),
      timestamp: '',
      text,
    });
    const agent: Pick<AgentClient, 'sendMessage' | 'userMessages' | 'userMessagesAfter'> = {
      sendMessage: (_endpoint, _id, message, { signal } = {}) => this.#take(message, signal),
      userMessages: (_endpoint, _id, limit) =>
        Promise.resolve(this.heard.map(see).slice(-limit).reverse()),
      userMessagesAfter: (_endpoint, _id, after) =>
        Promise.resolve(this.heard.map(see).slice(after === undefined ? 0 : Number(after.id) + 1)),
    };
    const { clock, events } = this;
    return new Delivery({
      client: new FakeKubeClient(),
      agent: agent as AgentClient,
      clock,
      logger: silentLogger,
      events: { record: (_object, event) => events.push(event) },
    });
  }

  #take({ content, run }: AgentMessage, signal?: AbortSignal): Promise<{ started: boolean }> {
    this.hasRun ||= run !== false;
    const outcome = this.outcomes.shift() ?? 'takes';
    const text = content.map((part) => part.text ?? '').join('\n');
    if (outcome.startsWith('takes')) this.heard.push(text);
    if (outcome === 'takes') return Promise.resolve({ started: false });
    if (outcome === 'aborted')
      return new Promise((_resolve, reject) =>
        signal?.addEventListener('abort', () => reject(new AgentError('aborted', 'given up'))),
      );
    const code = outcome === 'takes, and its answer is lost' ? 'connection-lost' : outcome;
    return Promise.reject(new AgentError(code, code));
  }

  /** Reconciles once, and stores the status at the end as well. */
  async deliver(operator = this.operator): Promise<number | undefined> {
    const { clock, container } = this;
    const seen = this.conversation;
    const state = { executionStatus: this.executionStatus } as AgentConversation;
    let stored = seen;
    const save = async (status: ConversationStatus) => {
      await this.onStore(status);
      if (this.conversation.metadata.resourceVersion !== stored.metadata.resourceVersion)
        throw new ApiError(409, { reason: 'Conflict' });
      const resourceVersion = String(Number(stored.metadata.resourceVersion) + 1);
      this.conversation = { ...stored, metadata: { ...stored.metadata, resourceVersion }, status };
      stored = this.conversation;
      return status;
    };
    const recipient = {
      conversation: seen,
      endpoint: { baseUrl: 'http://agent', sessionKey: 's' },
      id: 'c1',
      container,
      state,
      save,
      signal: new AbortController().signal,
      message: (number: number) =>
        Promise.resolve(
          this.conversation.spec.messages?.find((message) => message.number === number),
        ),
    };
    try {
      const delivered = await operator.deliver(recipient, seen.status ?? {});
      if (delivered.status !== stored.status) await save(delivered.status);
      if (delivered.error !== undefined) throw delivered.error;
      return delivered.againAfterMs;
    } finally {
      await clock.settle();
    }
  }

  /** Delivers again and again for this time, as the controller does. */
  async follow(forMs: number, operator = this.operator): Promise<void> {
    for (let passed = 0; passed <= forMs; passed += 1_000) {
      await this.deliver(operator).catch((error: unknown) => {
        if (!(error instanceof AgentError) && !(error instanceof ApiError)) throw error;
      });
      await this.clock.advance(1_000);
    }
  }

  get delivered(): number {
    return this.conversation.status?.messages?.lastDelivered ?? 0;
  }
}

describe('messages are delivered', () => {
  it('in order, each once, and then nothing is left', async () => {
    const bench = new Bench('a', 'b', 'c');
    expect(await bench.deliver()).toBeUndefined();
    expect(bench.heard).toEqual(['first', 'a', 'b', 'c']);
    expect(bench.conversation.status?.messages).toMatchObject({
      lastDelivered: 3,
      runPending: true,
    });
    // A message with a run would confirm an action for which the agent waits by then.
    expect(bench.hasRun).toBe(false);
    expect(bench.conversation.status?.messages?.inFlight).toBeUndefined();
    await bench.follow(3_000);
    expect(bench.heard).toHaveLength(4);
  });

  it.each<[string, Outcome[]]>([
    ['whose answer is lost', ['takes, and its answer is lost']],
    ['that never came to the agent', ['connection-lost']],
    ['that the agent failed to take', ['failed', 'failed']],
    ['that reached no agent', ['unreachable', 'unreachable', 'dormant']],
    ['whose answers are lost more than once', ['connection-lost', 'takes, and its answer is lost']],
  ])('once, and in order, also one %s', async (_case, outcomes) => {
    const bench = new Bench('a', 'b');
    bench.outcomes.push(...outcomes);
    await bench.follow(90_000);
    expect(bench.heard).toEqual(['first', 'a', 'b']);
    expect(bench.delivered).toBe(2);
  });

  it('once although two have the same text', async () => {
    const bench = new Bench('go', 'go', 'first');
    bench.outcomes.push('takes', 'takes, and its answer is lost', 'takes, and its answer is lost');
    await bench.follow(5_000);
    expect(bench.heard).toEqual(['first', 'go', 'go', 'first']);
  });

  it('not by one who was frozen after the mark, but by who finds it', async () => {
    const bench = new Bench('a');
    bench.onStore = () => bench.clock.advance(6_000);
    expect(await bench.deliver()).toBe(1_000);
    expect(bench.heard).toEqual(['first']);
    bench.onStore = () => undefined;
    await bench.follow(30_000, bench.another());
    expect(bench.heard).toEqual(['first', 'a']);
  });

  it('not again while a tool keeps it waiting, however long, and again when its container is gone', async () => {
    const bench = new Bench('a');
    bench.outcomes.push('aborted');
    bench.executionStatus = 'running';
    const call = bench.deliver();
    await bench.clock.advance(5_000);
    expect(await call).toBe(1_000);
    await bench.follow(600_000);
    expect(bench.heard).toEqual(['first']);
    bench.container = 'two';
    await bench.follow(2_000);
    expect(bench.heard).toEqual(['first', 'a']);
  });

  it('without those that the agent refuses, or fails to take ten times, and with an Event that does not repeat them', async () => {
    const bench = new Bench('secret one', 'secret two', 'c');
    bench.outcomes.push('refused', ...Array.from({ length: 10 }, () => 'failed' as const));
    await bench.follow(400_000);
    expect(bench.heard).toEqual(['first', 'c']);
    expect(bench.events).toMatchObject([
      { reason: 'MessageRefused' },
      { reason: 'MessageRefused' },
    ]);
    expect(JSON.stringify(bench.events)).not.toContain('secret');
  });
});
