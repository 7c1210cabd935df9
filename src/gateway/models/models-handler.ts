import { readBody, bodyBytesOf } from '@conversation-operator/http/body/json-body';
import { Refusal } from '@conversation-operator/http/refusal';
import { isSafePath } from '@conversation-operator/http/server/request-head';
import type { Shares } from '@conversation-operator/base/shares';
import type { AgentCredentials } from '../../agent/credentials.ts';
import { isRelayed, modelsFolder, upstreamOfConversation } from '../../agent/model-relay.ts';
import { readCall } from '../../models/apis/call.ts';
import { withMaxOutput, withMaxTokens, withUsageInStream } from '../../models/apis/edits.ts';
import {
  BadCallError,
  ModelApi,
  type ModelCall,
  type Operation,
} from '../../models/apis/model-api.ts';
import { errorApiOf, mayBeCounted, operationOf } from '../../models/apis/operation.ts';
import { refusalOf, type RefusalKind } from '../../models/apis/refusals.ts';
import { upstreamUrlOf } from '../../models/upstreams.ts';
import { isModelAllowed } from '../../resources/agent-settings.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { CallbackHandler, CallbackRequest } from '../callback-server/callback-server.ts';
import type { TransferLimits } from '../callback-server/transfer.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { newPool, sizeOf } from '../limits/pools.ts';
import type { CallAccounts, CallOutcome } from './call-accounts.ts';
import { CallHolders, type CallHolder, type CallHoldersOptions } from './call-holder.ts';
import { CallRefused } from './call-refused.ts';
import { isForwardedParameter, keyHeaders, requestHeadersOf } from './forwarded-headers.ts';
import { ModelRelay, type ModelRelayOptions } from './model-relay.ts';
import type { Providers } from './providers.ts';
import type { UpstreamCall, UpstreamKeys } from './upstream-keys.ts';

export interface ModelsHandlerOptions
  extends CallHoldersOptions, Pick<MeasuredRuntime, 'logger' | 'metrics'> {
  readonly providers: Pick<Providers, 'send'>;
  readonly credentials: AgentCredentials;
  readonly accounts: CallAccounts;
  readonly upstreams: Pick<UpstreamKeys, 'call'>;
  readonly failures: ModelRelayOptions['failures'];
  readonly limits?: Partial<TransferLimits>;
}

/** Models think for minutes before the first byte of an answer. */
const defaults: TransferLimits = { idleMs: 600_000, totalMs: 3_600_000 };

/** Maximum bytes of a request: contexts of a million tokens, with images. */
const maxBodyBytes = 32 * 1024 * 1024;

/** Bytes of a body that are read in less than 2 ms. */
const bytesPerTurn = 256 * 1024;

type Exchange = Pick<CallbackRequest, 'request' | 'response'>;

/** Where a call of an agent goes. */
interface Destination {
  readonly holder: CallHolder;
  /** Base URL of the provider, in which nothing is of the agent. */
  readonly base: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly key: string | undefined;
}

/** A call whose body was read. */
interface ReadCall {
  readonly call: CallbackRequest;
  readonly asked: ModelCall;
  readonly text: string;
  readonly body: Buffer;
  readonly destination: Destination;
  readonly upstream: UpstreamCall;
}

/**
 * The relay for models: `/models/{sandbox}/{conversation id}/{path of the model's API}`. Agents
 * send the token of their conversation instead of a key. The relay adds the key of the template's
 * credential, so that no sandbox has it, and counts what the call costs.
 */
export class ModelsHandler implements CallbackHandler {
  readonly name = modelsFolder;
  readonly #options: ModelsHandlerOptions;
  readonly #holders: CallHolders;
  readonly #relay: ModelRelay;
  readonly #calls: Shares;
  readonly #turns: Shares;
  readonly #bodies: Shares;

  constructor(options: ModelsHandlerOptions) {
    const { providers, failures, clock, logger, metrics } = options;
    this.#options = options;
    this.#holders = new CallHolders(options);
    const limits = { ...defaults, ...options.limits };
    this.#relay = new ModelRelay({ providers, failures, limits, clock, logger, metrics });
    this.#calls = newPool('modelCalls', clock);
    this.#turns = newPool('modelTurns', clock);
    this.#bodies = newPool('modelBodies', clock);
  }

  async handle(call: CallbackRequest): Promise<void> {
    const [conversationId, ...path] = call.path;
    if (conversationId === undefined || path.length === 0) {
      this.refusePath(call);
      return;
    }
    const rest = restOf(call.request.url ?? '', path.length);
    try {
      await this.#answer(call, conversationId, rest);
    } catch (error) {
      const refused = refusedOf(error);
      if (refused === undefined || call.response.headersSent) throw error;
      this.#refuse(call, rest, refused);
    }
  }

  /** Answers in the API's own shape, because the clients of models read no other one. */
  refusePath(call: Exchange): void {
    const [path = ''] = (call.request.url ?? '').split('?');
    const rest = path.split('/').slice(4).join('/');
    const message =
      'The relay for models serves no path with a segment that is empty, a dot or malformed, and none without the path of an API.';
    this.#refuse(call, rest, new CallRefused('not-found', message));
  }

  #refuse({ request, response }: Exchange, rest: string, refused: CallRefused): void {
    this.#options.metrics.modelRefusals.inc({ reason: refused.kind });
    const { status, body, headers } = refusalOf(errorApiOf(rest), refused.kind, refused.message);
    const { retryAfterSeconds } = refused;
    response.writeHead(status, {
      'cache-control': 'no-store',
      ...headers,
      ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
      // The rest of a refused body is not read.
      ...(request.complete ? {} : { connection: 'close' }),
    });
    response.end(body);
  }

  async #answer(call: CallbackRequest, conversationId: string, rest: string): Promise<void> {
    const holder = await this.#holders.of(call, conversationId);
    const { sandbox } = holder;
    call.countFor(sandbox);
    const { owner } = sandbox.spec;
    const share = { owner, sandbox: sandbox.metadata.uid };
    const leave = await this.#calls.wait(share, { signal: call.signal });
    try {
      const operation = this.#operationOf(call, holder, rest);
      const destination = await this.#destinationOf(call, holder, { rest, operation });
      const bytes = bodyBytesOf(call.request, maxBodyBytes);
      const free = await this.#bodies.wait(share, { signal: call.signal, units: bytes });
      try {
        if (operation?.kind === 'generate') await this.#generate(call, operation, destination);
        else await this.#pass(call, destination);
      } finally {
        free();
      }
    } finally {
      leave();
    }
  }

  /** The operation that the agent asks for; undefined for a path that the template passes on without counting. */
  #operationOf(
    { request }: CallbackRequest,
    { conversation, template }: CallHolder,
    rest: string,
  ): Operation | undefined {
    const operation = operationOf(request.method ?? '', rest);
    if (operation !== undefined) return operation;
    // Some servers read other spellings of a dot segment as one, and so leave the base URL.
    if (template.spec.models?.passThrough !== true || !isSafePath(`/${rest}`))
      throw new CallRefused(
        'not-found',
        `The relay for models serves no ${request.method ?? ''} ${rest}: it serves chat completions, responses, messages, generateContent and lists of models.`,
      );
    if (mayBeCounted(rest))
      throw new CallRefused(
        'not-found',
        `The relay for models serves no ${request.method ?? ''} ${rest}: calls of models are counted, so they need the exact path of their API.`,
      );
    if (this.#options.accounts.isInMoney(conversation))
      throw new CallRefused(
        'not-allowed',
        `A budget in money holds for this conversation, and the relay can not count ${request.method ?? ''} ${rest}.`,
      );
    return undefined;
  }

  async #destinationOf(
    { request, query }: CallbackRequest,
    holder: CallHolder,
    { rest, operation }: { readonly rest: string; readonly operation: Operation | undefined },
  ): Promise<Destination> {
    const { credentials } = this.#options;
    const { template, conversation, sandbox, places } = holder;
    const { agent } = template.spec;
    if (!isRelayed(template))
      throw new CallRefused(
        'not-allowed',
        `The sandbox template ${conversation.spec.templateName} does not use the relay for models.`,
      );
    const base = upstreamOfConversation(modelOf(holder) ?? '', { sandbox, template });
    if (base === undefined)
      throw new CallRefused(
        'not-allowed',
        'Nothing says which server has the model: the sandbox template has to name agent.baseUrl.',
      );
    const { credential } = agent;
    const key =
      credential === undefined
        ? undefined
        : await credentials.of(conversation.spec.owner, credential);
    if (credential !== undefined && key === undefined)
      throw new CallRefused(
        'not-allowed',
        `The model credential ${credential}, which the sandbox template ${conversation.spec.templateName} names, is missing or can't be used.`,
      );
    const url = new URL(upstreamUrlOf(base, `/${rest}`));
    for (const [name, value] of query)
      if (operation === undefined ? name !== 'key' : isForwardedParameter(name))
        url.searchParams.append(name, value);
    const headers = { ...requestHeadersOf(request.headers), ...keyHeaders(key, places) };
    return { holder, base, url, headers, key };
  }

  async #generate(
    call: CallbackRequest,
    operation: Extract<Operation, { kind: 'generate' }>,
    destination: Destination,
  ): Promise<void> {
    const { holder, key, url } = destination;
    const { upstreams } = this.#options;
    const { conversation, template } = holder;
    const { signal } = call;
    const body = await readBody(call.request, maxBodyBytes);
    await this.#takeTurn(holder, body.length, signal);
    const { call: asked, text } = readCall(operation, body);
    checkModel(asked, holder);
    const upstream = upstreams.call({
      conversation,
      credential: template.spec.agent.credential,
      key,
      host: url.host,
      model: asked.model,
      bodyBytes: body.length,
      maxOutputTokens: asked.maxOutputTokens,
      signal,
    });
    try {
      // A call that waits holds nothing of a budget.
      await upstream.begin();
      for (;;) {
        const limited = await this.#attempt({ call, asked, text, body, destination, upstream });
        if (limited === undefined) return;
        const retryAfterSeconds = await upstream.refused(limited);
        if (retryAfterSeconds !== undefined) {
          limited.send(retryAfterSeconds);
          return;
        }
      }
    } finally {
      upstream.end();
    }
  }

  /** Reserves, calls the provider, and settles. Resolves as `ModelRelay.relay`. */
  async #attempt({ call, asked, text, body, destination, upstream }: ReadCall) {
    const { accounts } = this.#options;
    const { holder, base, ...where } = destination;
    const account = await accounts.open({
      ...holder,
      asked,
      bodyBytes: body.length,
      beta: String(call.request.headers['anthropic-beta'] ?? ''),
      baseUrl: base,
      signal: call.signal,
    });
    const settle = (outcome: CallOutcome): void => {
      upstream.settle(outcome);
      account.settle(outcome);
    };
    try {
      const edited = editedBody(asked, text, { limit: account.limit, host: where.url.host });
      return await this.#relay.relay({
        call,
        ...where,
        body: edited === text ? body : Buffer.from(edited),
        counted: { api: asked.api, account: { settle }, onAccepted: () => upstream.accepted() },
      });
    } finally {
      // A call that has been settled stays as it is. No other one may keep its reservation.
      settle({ kind: 'broken' });
    }
  }

  /** Resolves in a turn of the event loop in which the owner may use the processor for a body. */
  async #takeTurn({ sandbox }: CallHolder, bytes: number, signal: AbortSignal): Promise<void> {
    const units = Math.min(1 + Math.floor(bytes / bytesPerTurn), sizeOf('modelTurns').perOwner);
    setImmediate(await this.#turns.wait({ owner: sandbox.spec.owner }, { units, signal }));
  }

  async #pass(call: CallbackRequest, { holder, base: _base, ...destination }: Destination) {
    const { method } = call.request;
    if (method !== 'GET' && method !== 'POST')
      throw new CallRefused('not-found', `The relay for models does not relay ${method ?? ''}.`);
    const body = method === 'GET' ? undefined : await readBody(call.request, maxBodyBytes);
    await this.#takeTurn(holder, 0, call.signal);
    await this.#relay.relay({ call, ...destination, body });
  }
}

/** Models of OpenAI, which obey `max_completion_tokens` behind every server. */
const openAiModel = /(?:^|\/)(?:gpt-[3-9]|o[1-9]|chatgpt-|codex-)/i;
/** Hosts of other providers that document `max_completion_tokens`. */
const obeysNewName = /(^|\.)(x\.ai|groq\.com)$/;

/** The request as the provider gets it: without a change where neither of the two is needed. */
function editedBody(
  { api, isStream, maxOutputTokens, model }: ModelCall,
  text: string,
  { limit, host }: { readonly limit: number | undefined; readonly host: string },
): string {
  const isChat = api === ModelApi.OpenAiChat;
  const isOpenAi = /(^|\.)openai\.(com|azure\.com)$/.test(host);
  let edited = text;
  const knowsName = isOpenAi || openAiModel.test(model) || obeysNewName.test(host);
  if (limit !== undefined && maxOutputTokens !== undefined && isChat && !knowsName)
    edited = withMaxTokens(edited);
  // The models of OpenAI that reason refuse `max_tokens`; other servers know nothing else.
  const added = isOpenAi ? 'max_completion_tokens' : 'max_tokens';
  if (limit !== undefined && limit !== maxOutputTokens)
    edited = withMaxOutput(api, edited, limit, added);
  return isChat && isStream ? withUsageInStream(edited) : edited;
}

/** The path after the conversation, as it was sent and without the query. */
function restOf(url: string, segments: number): string {
  const [path = ''] = url.split('?');
  return path.split('/').slice(-segments).join('/');
}

const modelOf = ({ conversation, template }: CallHolder): string | undefined =>
  conversation.spec.agent?.model ?? template.spec.agent.model;

/**
 * Throws `CallRefused` for a model that the template does not allow. Agents leave out the provider
 * of the model's name, so that the name counts with the provider of the conversation's model, too.
 */
function checkModel({ model }: ModelCall, holder: CallHolder): void {
  const { agent } = holder.template.spec;
  const own = modelOf(holder);
  const provider = own?.includes('/') === true ? own.slice(0, own.indexOf('/') + 1) : '';
  const names = [model, `${provider}${model}`];
  if (names.some((name) => isModelAllowed(name, agent))) return;
  throw new CallRefused(
    'not-allowed',
    `The sandbox template ${holder.conversation.spec.templateName} does not allow the model ${model}.`,
  );
}

const kindOfRefusal: Readonly<Partial<Record<string, RefusalKind>>> = {
  'body-too-large': 'too-large',
  'malformed-json': 'bad-request',
  'malformed-request': 'bad-request',
  'unsupported-media-type': 'bad-request',
};

/** The refusal of an error; undefined for a failure of the relay itself. */
function refusedOf(error: unknown): CallRefused | undefined {
  if (error instanceof CallRefused) return error;
  if (error instanceof BadCallError)
    return new CallRefused('bad-request', error.message, { cause: error });
  if (error instanceof Refusal)
    return new CallRefused(kindOfRefusal[error.code] ?? 'busy', error.message, { cause: error });
  if (error instanceof ProblemError && error.status !== 500) {
    const wait = Number(error.headers['retry-after'] ?? 1);
    return new CallRefused('busy', error.message, { cause: error, retryAfterSeconds: wait });
  }
  return undefined;
}
