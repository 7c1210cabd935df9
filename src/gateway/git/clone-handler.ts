import type { IncomingMessage, ServerResponse } from 'node:http';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { CloneGrant, SandboxKeys } from '../../agent/keys.ts';
import { sleep, type Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { CallbackRequest, CallbackHandler } from '../callback-server/handler.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { inNamespace, type Cache } from '../lookup/cache.ts';
import { shareProblem } from '../limits/share-problem.ts';
import { Shares, type Bound } from '@conversation-operator/kube/shares';
import { IdleTimer } from '../proxy/idle-timer.ts';
import type { GitStream } from '@conversation-operator/git/git-http';
import type { HostAnswer, PrivateHost, Wanted } from './private-host.ts';

export interface CloneLimits {
  /** Maximum concurrent requests: of all owners, of one owner's sandboxes, and of one sandbox. */
  readonly max: number;
  readonly maxPerOwner: number;
  readonly maxPerSandbox: number;
  /**
   * Maximum queued requests, of all owners and of one, and their maximum delay. A request queues
   * because a failed start costs more.
   */
  readonly maxWaiting: number;
  readonly maxWaitingPerOwner: number;
  readonly maxWaitMs: number;
  /** Maximum time without a byte from the host, or to the sandbox. */
  readonly idleMs: number;
  /** Maximum duration of one request. */
  readonly totalMs: number;
  /** Maximum delay of the cache behind the operator's write of the status. */
  readonly lagMs: number;
  /** Maximum bytes of the body of a request. */
  readonly maxBodyBytes: number;
}

export interface CloneHandlerOptions {
  readonly host: Pick<PrivateHost, 'refs' | 'pack'>;
  readonly keys: Pick<SandboxKeys, 'acceptsCloneTicket'>;
  /** A cache that has the index `sandboxName` of `gatewayIndexers`. */
  readonly conversations: Cache<CachedConversation>;
  /** The provider of conversations that name none. */
  readonly defaultProvider: string | undefined;
  /** Limits that replace the defaults. */
  readonly limits?: Partial<CloneLimits>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

const defaults: CloneLimits = {
  max: 128,
  maxPerOwner: 32,
  maxPerSandbox: 4,
  maxWaiting: 1000,
  maxWaitingPerOwner: 200,
  maxWaitMs: 600_000,
  idleMs: 120_000,
  totalMs: 3_600_000,
  lagMs: 5_000,
  maxBodyBytes: 16 * 1024 * 1024,
};

type Service = 'refs' | 'pack' | 'push';

/** Delay before the cache is read again for the status of a start. */
const cachePollMs = 50;
/**
 * The headers of a request that are forwarded to the host, and the headers of an answer that are
 * forwarded to the sandbox.
 */
const passedOn = [
  'accept',
  'accept-encoding',
  'content-encoding',
  'content-length',
  'content-type',
  'git-protocol',
] as const;
const passedBack = ['content-encoding', 'content-type'] as const;

/**
 * Serves private repositories to sandboxes for reading; the credential of the host stays in the
 * gateway. A ticket opens one repository to one sandbox, and only while the operator prepares it
 * there. Status 404 means that the sandbox can clone from the host itself.
 */
export class CloneHandler implements CallbackHandler {
  readonly name = 'git';
  readonly #options: CloneHandlerOptions;
  readonly #limits: CloneLimits;
  readonly #shares: Shares;

  constructor(options: CloneHandlerOptions) {
    this.#options = options;
    this.#limits = { ...defaults, ...options.limits };
    const { max, maxPerOwner, maxPerSandbox, maxWaiting, maxWaitingPerOwner, maxWaitMs } =
      this.#limits;
    this.#shares = new Shares({
      ...{ total: max, perOwner: maxPerOwner, perSandbox: maxPerSandbox, refuse: tooMany },
      waiting: {
        clock: options.clock,
        maxMs: maxWaitMs,
        total: maxWaiting,
        perOwner: maxWaitingPerOwner,
      },
    });
  }

  async handle(call: CallbackRequest): Promise<void> {
    const asked = askedIn(call);
    if (asked === undefined)
      throw new ProblemError('route-not-found', 'There is no such endpoint.');
    const { grant, service } = asked;
    const sandbox = this.#holder(call, grant);
    if (sandbox === undefined) throw refusedTicket();
    if (service === 'push')
      throw new ProblemError('clone-ticket-refused', 'The ticket is for reading.');
    const { spec, metadata } = sandbox;
    const release = await this.#shares.wait(
      { owner: spec.owner, sandbox: metadata.uid },
      { signal: call.signal },
    );
    try {
      if (!(await this.#isPreparing(sandbox, grant, call.signal))) throw refusedTicket();
      await this.#pass(call, sandbox, grant, service);
    } finally {
      release();
    }
  }

  /**
   * The sandbox, if the ticket is its own. The check of an unknown sandbox takes as long as that of
   * a known one.
   */
  #holder({ request, sandbox }: CallbackRequest, grant: CloneGrant): Sandbox | undefined {
    const { keys, clock } = this.#options;
    const ticket = /^Bearer (\S{1,256})$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const isGood = keys.acceptsCloneTicket(
      sandbox?.metadata.uid ?? 'none',
      grant,
      ticket,
      clock.now(),
    );
    return isGood && sandbox?.metadata.deletionTimestamp === undefined ? sandbox : undefined;
  }

  /**
   * Whether the operator still prepares the repository. The ticket ends with this step, long before
   * it expires.
   */
  async #isPreparing(
    { metadata, spec }: Sandbox,
    { provider, repository }: CloneGrant,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { conversations, clock, defaultProvider } = this.#options;
    const lateMs = clock.monotonic() + this.#limits.lagMs;
    const isIt = (conversation: CachedConversation): boolean =>
      conversation.spec.owner === spec.owner &&
      conversation.status?.sandboxUID === metadata.uid &&
      conversation.status.start?.status === 'PREPARING_REPOSITORY' &&
      conversation.spec.repository?.name === repository &&
      (conversation.spec.repository.provider ?? defaultProvider) === provider;
    for (;;) {
      if (
        conversations.store
          .byIndex('sandboxName', inNamespace(metadata.namespace, metadata.name))
          .some(isIt)
      )
        return true;
      if (clock.monotonic() >= lateMs) return false;
      await sleep(clock, cachePollMs, signal);
    }
  }

  async #pass(
    call: CallbackRequest,
    sandbox: Sandbox,
    grant: CloneGrant,
    service: 'refs' | 'pack',
  ): Promise<void> {
    const { host, clock, logger, metrics } = this.#options;
    const { idleMs, totalMs, maxBodyBytes } = this.#limits;
    const { request, response } = call;
    const late = new AbortController();
    const idle = new IdleTimer({
      clock,
      idleMs,
      onIdle: () => late.abort(new Error('nothing has moved for too long')),
    });
    const total = clock.after(totalMs, () => late.abort(new Error('it has taken too long')));
    const signal = AbortSignal.any([call.signal, late.signal]);
    const touch = () => idle.touch();
    try {
      const wanted: Wanted = {
        owner: sandbox.spec.owner,
        ...grant,
        headers: headersOf(request),
        signal,
      };
      const answer = await (service === 'refs'
        ? host.refs(wanted)
        : host.pack(wanted, bodyOf(request, touch, maxBodyBytes, signal)));
      metrics.gitClones.inc({ result: answer.kind });
      if (answer.kind === 'stream') await send(response, answer.stream, touch, signal);
      else refuse(response, answer);
    } catch (error) {
      if (!signal.aborted && !response.headersSent) throw error;
      logger.info('a clone was interrupted', { sandbox: sandbox.metadata.name, error });
      response.destroy();
    } finally {
      idle.stop();
      total.cancel();
    }
  }
}

const refusedTicket = (): ProblemError =>
  new ProblemError('clone-ticket-refused', 'The ticket is not good for this, or not any more.');

const tooMany = (bound: Bound): ProblemError =>
  bound === 'owner'
    ? shareProblem(bound, 'clones')
    : new ProblemError('too-many-connections', 'Too many repositories are being cloned.', {
        headers: { 'retry-after': '10' },
      });

/** Reads paths like `{provider}/{owner}/{name}.git/info/refs`; undefined for all others. */
function askedIn({
  request: { method },
  path,
  query,
}: CallbackRequest): { readonly grant: CloneGrant; readonly service: Service } | undefined {
  const [provider = '', ...rest] = path;
  const end = rest.findLastIndex((segment) => segment.endsWith('.git'));
  const repository = rest
    .slice(0, end + 1)
    .join('/')
    .slice(0, -'.git'.length);
  if (end < 1 || repository === '') return undefined;
  const grant = { provider, repository };
  const what = rest.slice(end + 1).join('/');
  const service =
    what === 'info/refs' && method === 'GET'
      ? query.get('service')
      : method === 'POST' && query.size === 0
        ? what
        : undefined;
  if (service === 'git-receive-pack') return { grant, service: 'push' };
  if (service !== 'git-upload-pack') return undefined;
  return { grant, service: what === 'info/refs' ? 'refs' : 'pack' };
}

const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    passedOn.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  );

async function send(
  response: ServerResponse,
  { headers, body }: GitStream,
  touch: () => void,
  signal: AbortSignal,
): Promise<void> {
  response.statusCode = 200;
  response.setHeader('cache-control', 'no-store');
  for (const name of passedBack) {
    const value = headers[name];
    if (typeof value === 'string') response.setHeader(name, value);
  }
  await pipeline(body, measured(touch, Number.POSITIVE_INFINITY), response, { signal });
}

/** Answers with a text, because git shows it to people. */
function refuse(
  response: ServerResponse,
  answer: Exclude<HostAnswer, { readonly kind: 'stream' }>,
): void {
  const [status, text] = refusals[answer.kind];
  response.writeHead(status, {
    'content-type': 'text/plain',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(`${text}${answer.kind === 'failed' ? `: ${answer.reason}` : ''}\n`);
}

const refusals = {
  open: [404, 'Ask the git host itself'],
  denied: [403, 'There is no such repository, or the credential of its owner does not open it'],
  failed: [502, 'The git host can not be asked'],
} as const;

function bodyOf(
  request: IncomingMessage,
  touch: () => void,
  maxBytes: number,
  signal: AbortSignal,
): Readable {
  const body = measured(touch, maxBytes);
  // The reader of the body gets the error.
  pipeline(request, body, { signal }).catch(() => undefined);
  return body;
}

function measured(touch: () => void, maxBytes: number): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      touch();
      bytes += chunk.length;
      if (bytes > maxBytes) done(new ProblemError('body-too-large', 'The request is too large.'));
      else done(null, chunk);
    },
  });
}
