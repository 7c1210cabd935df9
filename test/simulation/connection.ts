import { Dispatcher } from 'undici';
import type { PlaneResponse } from '../../packages/local-cluster/src/api/request.ts';
import { WatchStream } from '../../packages/local-cluster/src/storage/changes.ts';
import type { Cluster } from './cluster.ts';
import type { Machine } from './machine.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { Traffic, TrafficRequest } from './traffic.ts';
import type { FaultSchedule, RequestFaults } from './fault-schedule.ts';

export interface ConnectionOptions {
  readonly machine: Machine;
  readonly cluster: Cluster;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly trace: Trace;
  /** Whether the machine is isolated from the API server at the moment. */
  readonly isolated: () => boolean;
  readonly traffic?: Traffic;
  /** Maximum objects of a response to a paged list; absent: as many as are asked for. */
  readonly pageSize?: number | undefined;
}

type Fate =
  | 'answered'
  | 'late-execution'
  | 'lost'
  | 'answer-lost'
  | 'half-answer'
  | 'refused'
  | 'failed-undone'
  | 'failed-done'
  | 'throttled'
  | 'unavailable';

/** The documented bound of a write: an API server executes it within this time, or never. */
const lateMs = 4_900;

/** The connection of one machine's transport: the control plane behind a faulty network. */
export class SimulatedConnection extends Dispatcher {
  readonly #options: ConnectionOptions;
  #calls = 0;

  constructor(options: ConnectionOptions) {
    super();
    this.#options = options;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const call = new Exchange(
      this.#options,
      `${this.#options.machine.name}#${this.#calls++}`,
      options,
      handler,
    );
    call.begin();
    return true;
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }

  override destroy(): Promise<void> {
    return Promise.resolve();
  }
}

class Exchange implements Dispatcher.DispatchController {
  readonly #options: ConnectionOptions;
  readonly #id: string;
  readonly #request: Dispatcher.DispatchOptions;
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #endings: (() => void)[] = [];
  readonly #decidedSince: number;
  readonly #faults: RequestFaults;
  aborted = false;
  paused = false;
  reason: Error | null = null;

  constructor(
    options: ConnectionOptions,
    id: string,
    request: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ) {
    this.#options = options;
    this.#id = id;
    this.#request = request;
    this.#handler = handler;
    this.#decidedSince = options.machine.decidedSince;
    const { method, path, body } = request;
    // The body of a creation names its object, which the path of its collection does not.
    const object = method === 'POST' && typeof body === 'string' ? nameIn(body) : '';
    this.#faults = options.faultSchedule.nextRequest(
      `${options.machine.name} ${method} ${path.split('?', 1)[0] ?? ''} ${object}${this.#isWatch ? 'watch' : ''}`,
    );
  }

  abort(reason: Error): void {
    this.aborted = true;
    this.reason = reason;
    for (const ending of this.#endings.splice(0)) ending();
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  begin(): void {
    const faults = this.#faults;
    if (this.#unreachable) {
      this.#deliver(faults.transitMs(), () =>
        this.#handler.onResponseError?.(this, new Error('connect ECONNREFUSED')),
      );
      return;
    }
    if (faults.happens('queued')) this.#deliver(faults.between(10, 8_000), () => this.#send());
    else this.#send();
  }

  get #unreachable(): boolean {
    return this.#options.cluster.down || this.#options.isolated();
  }

  #send(): void {
    this.#handler.onRequestStart?.(this, {});
    // The gate in front of a leader's writes may have refused the request.
    if (this.aborted) return;
    const faults = this.#faults;
    const fate = this.#fate();
    this.#note(`sends ${fate}`);
    this.#options.traffic?.sent(this.#asked);
    if (fate === 'lost') {
      if (faults.between(0, 1) < 0.5) this.#reset(faults.transitMs());
      return;
    }
    if (fate === 'late-execution') {
      this.#reset(faults.transitMs());
      this.#options.scheduler.after(faults.between(500, lateMs), () => void this.#execute());
      return;
    }
    const transitMs = faults.happens('late')
      ? faults.between(100, lateMs)
      : Math.min(faults.transitMs(), lateMs);
    this.#options.scheduler.after(transitMs, () => void this.#arrive(fate));
  }

  #fate(): Fate {
    const faults = this.#faults;
    if (faults.happens('lostRequest')) return 'lost';
    if (faults.happens('tooManyRequests')) return 'throttled';
    if (faults.happens('unavailable')) return 'unavailable';
    if (faults.happens('internalError'))
      return faults.between(0, 1) < 0.5 ? 'failed-done' : 'failed-undone';
    if (this.#isWatch) return 'answered';
    if (this.#request.method !== 'GET' && faults.happens('lateExecution')) return 'late-execution';
    if (faults.happens('lostAnswer')) return 'answer-lost';
    return faults.happens('halfAnswer') ? 'half-answer' : 'answered';
  }

  get #asked(): TrafficRequest {
    const { method, path, body } = this.#request;
    return {
      actor: this.#options.machine.name,
      method,
      path: path.split('?', 1)[0] ?? path,
      body: typeof body === 'string' ? body : undefined,
    };
  }

  get #isWatch(): boolean {
    return this.#request.path.includes('watch=true');
  }

  async #arrive(fate: Fate): Promise<void> {
    const faults = this.#faults;
    if (this.#unreachable) {
      this.#reset(faults.transitMs());
      return;
    }
    const { method, path } = this.#asked;
    if (
      this.#options.traffic?.isQuotaFull === true &&
      method === 'POST' &&
      path.endsWith('/pods')
    ) {
      this.#answer(403, {}, status(403, 'Forbidden', quotaFull));
      return;
    }
    const refusal = this.#options.traffic?.refusal(this.#asked);
    if (refusal !== undefined) {
      this.#answer(refusal, {}, status(refusal, 'InternalError'));
      return;
    }
    switch (fate) {
      case 'throttled':
        this.#answer(429, { 'retry-after': '1' }, status(429, 'TooManyRequests'));
        return;
      case 'unavailable':
        this.#answer(503, {}, 'upstream connect error');
        return;
      case 'failed-undone':
        this.#answer(500, {}, status(500, 'InternalError'));
        return;
      default:
    }
    const response = await this.#execute();
    if (fate === 'failed-done') this.#answer(500, {}, status(500, 'InternalError'));
    else if (typeof response.body !== 'string') this.#stream(response);
    else if (fate === 'answer-lost') {
      if (faults.between(0, 1) < 0.5) this.#reset(faults.transitMs());
    } else this.#answer(response.status, response.headers, response.body, fate === 'half-answer');
  }

  async #execute(): Promise<PlaneResponse> {
    const { cluster, machine } = this.#options;
    const { method, path, body, headers } = this.#request;
    const [plain = '', text = ''] = path.split('?');
    const query = new URLSearchParams(text);
    if (method === 'GET' && query.has('continue') && this.#faults.happens('expiredToken'))
      return expired;
    const limit = Number(query.get('limit') ?? 0);
    const { pageSize = Infinity } = this.#options;
    if (limit > pageSize) query.set('limit', String(pageSize));
    const request = {
      method,
      path: plain,
      query,
      headers: headers as Record<string, string>,
      ...(typeof body === 'string' ? { body } : {}),
    };
    const response = await cluster.execute(machine.name, request, this.#decidedSince);
    this.#note(`executed -> ${response.status}`);
    return response;
  }

  #answer(
    code: number,
    headers: Readonly<Record<string, string>>,
    body: string,
    half = false,
  ): void {
    this.#deliver(this.#faults.transitMs(), () => {
      this.#note(`answered ${code}${half ? ' by half' : ''}`);
      this.#handler.onResponseStart?.(this, code, headers);
      this.#handler.onResponseData?.(
        this,
        Buffer.from(half ? body.slice(0, body.length / 2) : body),
      );
      if (half) this.#handler.onResponseError?.(this, new Error('read ECONNRESET'));
      else {
        this.#options.traffic?.answered(this.#asked, code, body);
        this.#handler.onResponseEnd?.(this, {});
      }
    });
  }

  #reset(afterMs: number): void {
    this.#deliver(afterMs, () =>
      this.#handler.onResponseError?.(this, new Error('read ECONNRESET')),
    );
  }

  /** Delivers the lines of a watch one after the other, until a fault ends the watch. */
  #stream({ body, status: code, headers }: PlaneResponse): void {
    if (!(body instanceof WatchStream)) throw new Error('only watches are streams here');
    const { scheduler, machine, cluster } = this.#options;
    const faults = this.#faults;
    const lines = body[Symbol.asyncIterator]();
    const close = () => void lines.return?.();
    this.#endings.push(close, machine.onDeath(close));
    const silentAt = faults.happens('watchSilent')
      ? scheduler.monotonic() + faults.between(0, 60_000)
      : Infinity;
    const lags = faults.happens('watchLag');
    if (faults.happens('watchClosed')) this.#close(faults.between(0, 60_000), close);
    let readyAt = scheduler.monotonic() + faults.transitMs();
    const inOrder = (name: string, work: () => void) => {
      const line = faults.nextLine(name);
      const lagMs = lags && line.mayHappen('watchLag') ? line.between(0, 20_000) : line.transitMs();
      // Strictly one after the other: what is due at the same moment may come in any order.
      readyAt = Math.max(readyAt + 0.001, scheduler.monotonic() + lagMs);
      this.#deliver(readyAt - scheduler.monotonic(), work);
    };
    inOrder('start', () => this.#handler.onResponseStart?.(this, code, headers));
    void (async () => {
      for (let line = await lines.next(); line.done !== true; line = await lines.next()) {
        if (scheduler.monotonic() >= silentAt) continue;
        const { value } = line;
        inOrder(nameIn(value), () => {
          this.#note('hears');
          this.#handler.onResponseData?.(this, Buffer.from(value));
        });
      }
      if (scheduler.monotonic() < silentAt) {
        inOrder('end', () => {
          this.#handler.onResponseEnd?.(this, {});
          this.abort(new Error('the stream has ended'));
        });
      }
    })();
    this.#endings.push(cluster.onOutage(() => this.#close(0, close)));
  }

  #close(afterMs: number, close: () => void): void {
    this.#deliver(afterMs, () => {
      this.#note('is closed');
      const reason = new Error('read ECONNRESET');
      this.#handler.onResponseError?.(this, reason);
      close();
      // Lines that are still under way on the connection are lost.
      this.abort(reason);
    });
  }

  /** Delivers to the machine, unless the call was aborted by then. */
  #deliver(afterMs: number, work: () => void): void {
    this.#options.scheduler.after(afterMs, () =>
      this.#options.machine.deliver(() => {
        if (!this.aborted) work();
      }),
    );
  }

  #note(what: string): void {
    const { method, path } = this.#request;
    this.#options.trace.note(`${this.#id} ${method} ${path} ${what}`);
  }
}

/** The first name in an object's text, by which its faults are chosen. */
const nameIn = (text: string): string => /"name":"([^"]*)"/.exec(text)?.[1] ?? '';

const expired: PlaneResponse = {
  status: 410,
  headers: {},
  body: JSON.stringify({
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    code: 410,
    reason: 'Expired',
    message: 'simulated expiry',
  }),
};

const quotaFull =
  'pods is forbidden: exceeded quota: full, requested: pods=1, used: pods=9, limited: pods=9';

const status = (code: number, reason: string, message = `simulated ${reason}`): string =>
  JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message });
