import { Readable } from 'node:stream';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import { AgentError } from '../../../src/agent/errors.ts';
import type { AgentEvents, EventQuery } from '../../../src/agent/events.ts';
import type { Random } from '../random.ts';
import type { Trace } from '../trace.ts';
import type { IoScheduler } from './io-scheduler.ts';

export interface WrittenEvent {
  readonly id: string;
  readonly json: string;
  /** Number of events that the agent wrote before, also those that a restored volume has lost. */
  readonly index: number;
  /** Milliseconds of the simulation. */
  readonly at: number;
  /** Whether an archive has the JSON as it is: it has no secret. */
  readonly isPlain: boolean;
}

/**
 * - running: the agent answers.
 * - hanging: its answers do not come, or not to their end.
 * - down: nothing listens at its address.
 */
export type AgentState = 'running' | 'hanging' | 'down';

export interface AgentOptions {
  readonly name: string;
  /** Whether the agent repeats ids and names pages that do not follow. */
  readonly lies: boolean;
  readonly secrets: readonly string[];
  readonly random: Random;
  readonly scheduler: IoScheduler;
  /** Maximum length of an ordinary text. */
  readonly textLength: number;
}

/** Deadline of a read, as that of the real client. */
const deadlineMs = 30_000;
const timestamps = [
  '2030-01-01T00:00:00',
  '1970-01-01T00:00:00',
  '2100-12-31T23:59:59.999999',
  undefined,
];

/** The agent of one conversation, with the log that its volume has. */
export class ModelAgent {
  readonly lies: boolean;
  state: AgentState = 'running';
  /** All events that were ever written, in their order. */
  readonly written: WrittenEvent[] = [];
  log: WrittenEvent[] = [];
  /** How long the next answers take at most, in milliseconds. */
  slownessMs = 10;
  readonly #options: AgentOptions;

  constructor(options: AgentOptions) {
    this.#options = options;
    this.lies = options.lies;
  }

  write(count: number): void {
    for (let left = count; left > 0; left--) {
      const event = this.#next();
      this.written.push(event);
      this.log.push(event);
      if (this.lies && this.#options.random.chance(0.2)) this.log.push(this.#earlier() ?? event);
    }
  }

  /** The volume is restored, or replaced. */
  lose(count: number): void {
    this.log = this.log.slice(0, Math.max(0, this.log.length - count));
  }

  /** A page as openhands-agent-server answers: an unknown id gives the first page. */
  page({ limit, sort_order: order, page_id: from }: EventQuery): string {
    const { random } = this.#options;
    const events = order === 'TIMESTAMP_DESC' ? this.log.toReversed() : this.log;
    const known = from === undefined ? 0 : events.findIndex(({ id }) => id === from);
    const start = Math.max(known, 0);
    const end = start + Number(limit);
    const next =
      this.lies && random.chance(0.3) ? random.pick(events)?.id : (events[end]?.id ?? null);
    const items = events.slice(start, end).map(({ json }) => json);
    return `{"items":[${items.join(',')}],"next_page_id":${JSON.stringify(next ?? null)}}`;
  }

  /** A text that stands for the state, as in the report to a poll of the agent. */
  get report(): string {
    return `${this.written.length}`;
  }

  get slowness(): number {
    return this.#options.random.between(1, this.slownessMs);
  }

  #earlier(): WrittenEvent | undefined {
    return this.#options.random.pick(this.log);
  }

  #next(): WrittenEvent {
    const { name, random, scheduler, secrets, textLength } = this.#options;
    const index = this.written.length;
    const id = `${name}-${index}-${Math.floor(random.next() * 1e6).toString(36)}`;
    const dice = random.next();
    const length =
      dice < 0.02 && textLength >= 2_000
        ? random.whole(1_000, dice < 0.002 ? 300_000 : 40_000)
        : random.whole(0, textLength);
    const secret = random.chance(0.03) ? random.pick(secrets) : undefined;
    const timestamp = random.chance(0.1) ? random.pick(timestamps) : timestamps[0];
    const kind = random.pick(['MessageEvent', 'ActionEvent', 'ObservationEvent']);
    const text = `${noise(random, length)}${secret ?? ''}`;
    const json = JSON.stringify({ id, timestamp, source: 'agent', kind, text });
    return { id, json, index, at: scheduler.monotonic(), isPlain: secret === undefined };
  }
}

/** A text that compression does not make much smaller, up to a length. */
function noise(random: Random, length: number): string {
  const parts: string[] = [];
  for (let left = Math.min(length, 400); left > 0; left -= 6)
    parts.push(Math.floor(random.next() * 2 ** 31).toString(36));
  return parts.join('').slice(0, length).padEnd(length, 'x');
}

/** The way to the agents, by the address and the id of the conversation. */
export class AgentNetwork implements Pick<AgentEvents, 'search'> {
  readonly #agents = new Map<string, ModelAgent>();
  readonly #scheduler: IoScheduler;
  readonly #trace: Trace;
  onPage: (agent: ModelAgent, isLast: boolean) => void = () => undefined;

  constructor(scheduler: IoScheduler, trace: Trace) {
    this.#scheduler = scheduler;
    this.#trace = trace;
  }

  connect(baseUrl: string, id: string, agent: ModelAgent): void {
    this.#agents.set(`${baseUrl} ${id}`, agent);
  }

  search(
    { baseUrl }: AgentEndpoint,
    id: string,
    query: EventQuery,
    signal: AbortSignal,
  ): Promise<Readable> {
    const agent = this.#agents.get(`${baseUrl} ${id}`);
    const { promise, resolve, reject } = Promise.withResolvers<Readable>();
    let body: Readable | undefined;
    const fail = (code: AgentError['code']) => {
      end();
      const error = new AgentError(code, `The agent: ${code}`);
      if (body === undefined) reject(error);
      else body.destroy(error);
    };
    const end = () => {
      deadline.cancel();
      signal.removeEventListener('abort', onAbort);
    };
    const deadline = this.#scheduler.after(deadlineMs, () => fail('timeout'));
    const onAbort = () => fail('aborted');
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    this.#scheduler.after(agent?.slowness ?? 1, () => {
      if (signal.aborted) return;
      if (agent === undefined || agent.state === 'down') {
        fail('unreachable');
        return;
      }
      const text = agent.page(query);
      this.#trace.note(`page of ${id.slice(-4)} from ${query['page_id'] ?? 'the end'}`);
      if (agent.state === 'hanging') {
        body = new Readable({ read: () => undefined });
        body.push(text.slice(0, text.length / 2));
        resolve(body);
        return;
      }
      end();
      resolve(Readable.from([Buffer.from(text)]));
      this.onPage(agent, text.endsWith('"next_page_id":null}'));
    });
    return promise;
  }
}
