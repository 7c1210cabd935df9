import type { Request, Response } from 'express';
import { z } from 'zod';
import type { JsonText } from '@conversation-operator/http/body/send-json';
import type { RequestKind } from '@conversation-operator/http/limits/rate-limits';
import { holderOf, type Principal, type KeyChain } from '../auth/key-ring.ts';
import type { AuditHolder, AuditOrigin } from '../../observability/audit.ts';
import type { ApiKeyScope } from '../../resources/api-key.ts';
import type { ProblemCode } from '../errors/catalogue.ts';
import { validate, type Schemas } from '../errors/validation.ts';
import type { Reader } from '../auth/session-keys.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { moving, notFound } from '../errors/common-problems.ts';

declare module 'express-serve-static-core' {
  interface Locals {
    requestId: string;
    /** Address of the client. */
    client: string;
    route?: Route;
    /** Pattern of the path of the request; set even if no route has the method. */
    pattern?: string | undefined;
    principal?: Principal;
    /** Chain of the request's API key, or of the API key of its browser session or session key. */
    chain?: KeyChain;
    /** Owner of the API key, or of the sandbox whose session key the request has. */
    owner?: string;
    /** Name of the object that a write changes, for the audit log. */
    target?: string;
    /** Releases the permits of the request. */
    leave?: () => void;
    result?: HandlerResult;
    problem?: ProblemCode;
  }
}

/**
 * Result of a handler: the JSON or text to send, or the number of bytes that the handler has
 * already sent. `sent` means that the handler has sent bytes that do not count.
 */
export type HandlerResult =
  | { readonly status?: number; readonly json: unknown }
  | { readonly jsonText: JsonText }
  | { readonly plainText: string }
  | { readonly sentBytes: number }
  | 'sent';

/** Description of an endpoint, from which the router and the OpenAPI document are created. */
interface Description {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** Path in the form of OpenAPI, such as /api/v1/sandboxes/{id}. */
  readonly path: string;
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly responses: Readonly<Record<number, z.ZodType>>;
  /** Problems of this endpoint, in addition to the `commonProblems` of the OpenAPI document. */
  readonly problems?: readonly ProblemCode[];
  /**
   * Scope that a key needs, or `any`: every key opens the route. By default `read` for GET, and
   * `manage` for the other methods.
   */
  readonly scope?: ApiKeyScope | 'any';
  readonly deprecated?: true;
  /** Successful responses may have a Link to the next page. */
  readonly hasNextLink?: true;
  /**
   * Maximum bytes of a body that is forwarded to an agent. The general maximum, and the rate limit
   * for stored bodies, do not apply to such a body.
   */
  readonly maxForwardedBytes?: number;
  /** Successful responses are CSV for a client that prefers text/csv. */
  readonly hasCsv?: true;
  /** Media type of a successful response; JSON by default. */
  readonly mediaType?:
    | 'text/html'
    | 'text/event-stream'
    | 'text/plain'
    | 'application/zip'
    | 'application/octet-stream';
}

export interface Route extends Description {
  /** `session`: an API key or the session key of the sandbox `{id}` gives access to the route. */
  readonly access: 'key' | 'session' | 'open';
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  /** Schema of the headers, by their names in lower case. */
  readonly headers?: z.ZodType;
  readonly body?: z.ZodType;
  readonly handle: (raw: RawCall) => HandlerResult | Promise<HandlerResult>;
}

export const kindOf = ({ method }: Pick<Route, 'method'>): RequestKind =>
  method === 'get' ? 'reads' : 'writes';

/** The scope that the key of a request needs; undefined: none. */
export function scopeOf({ access, method, scope }: Route): ApiKeyScope | undefined {
  if (access === 'open' || scope === 'any') return undefined;
  return scope ?? (method === 'get' ? 'read' : 'manage');
}

export interface RawCall {
  readonly principal: Principal | undefined;
  /** The API key whose session keys the response shows; undefined if and only if `principal` is. */
  readonly reader: Reader | undefined;
  readonly query: Readonly<Record<string, unknown>>;
  readonly request: Request;
  readonly response: Response;
}

export interface Call<P, Q, B, H> {
  readonly principal: Principal;
  /** The API key whose session keys the response shows. */
  readonly reader: Reader;
  readonly owner: string;
  readonly params: P;
  readonly query: Q;
  readonly headers: H;
  readonly body: B;
  readonly response: Response;
  /** Records the name of the object that a write changes, for the audit log. */
  readonly about: (target: string) => void;
}

/** Where a request comes from, for the audit log. */
export const originOf = ({ locals: { requestId, client } }: Response): AuditOrigin => ({
  requestId,
  client,
});

/** The holder of the key of a request, and its origin, for the audit log. */
export const callerOf = ({
  principal,
  response,
}: Pick<Call<unknown, unknown, unknown, unknown>, 'principal' | 'response'>): AuditOrigin &
  AuditHolder => ({ ...originOf(response), ...holderOf(principal) });

interface KeyRoute<P, Q, B, H> extends Description, Schemas<P, Q, B, H> {
  readonly handle: (call: Call<P, Q, B, H>) => HandlerResult | Promise<HandlerResult>;
}

/** An endpoint that needs an API key. Its handler gets the request as parsed by its schemas. */
function keyRoute<P, Q, B, H>(definition: KeyRoute<P, Q, B, H>): Route {
  return {
    ...definition,
    access: 'key',
    handle: ({ principal, reader, query, request, response }) => {
      if (principal === undefined || reader === undefined)
        throw new Error(`${definition.operationId} was reached without a key`);
      const { params, headers } = request;
      const valid = validate<P, Q, B, H>(definition, {
        params,
        query,
        headers,
        body: (request.body as unknown) ?? {},
      });
      return definition.handle({
        principal,
        reader,
        owner: principal.owner,
        // A value is undefined only if it has no schema. In that case, its type is undefined too.
        params: valid.params as P,
        query: valid.query as Q,
        headers: valid.headers as H,
        body: valid.body as B,
        response,
        about: (target) => {
          response.locals.target = target;
        },
      });
    },
  };
}

interface SessionRoute<P> extends Description {
  readonly params: z.ZodType<P>;
  /** `owner` is undefined if the request has the sandbox's session key, and no API key. */
  readonly handle: (call: {
    readonly owner: string | undefined;
    readonly params: P;
    readonly response: Response;
  }) => HandlerResult | Promise<HandlerResult>;
}

/** An endpoint about one sandbox, for an API key of its owner or the sandbox's session key. */
const sessionRoute = <P>(definition: SessionRoute<P>): Route => ({
  ...definition,
  access: 'session',
  handle: ({ principal, query, request, response }) => {
    const { params } = validate<P, undefined, undefined, undefined>(
      { params: definition.params },
      { params: request.params, query, headers: {}, body: {} },
    );
    // `params` is defined, because its schema is defined.
    return definition.handle({ owner: principal?.owner, params: params as P, response });
  },
});

type Definition<T> = Omit<T, 'method' | 'path' | 'operationId' | 'tag'>;

/**
 * Functions that create the endpoints of one OpenAPI tag from a path, an `operationId` and a
 * definition. Endpoints of `getOpen` and `postOpen` need no API key; those of `getInSession` need
 * an API key or the session key of a sandbox.
 */
export function endpoints(tag: string) {
  const of =
    (method: Route['method']) =>
    <P = undefined, Q = undefined, B = undefined, H = undefined>(
      path: string,
      operationId: string,
      definition: Definition<KeyRoute<P, Q, B, H>>,
    ): Route =>
      keyRoute({ ...definition, method, path, operationId, tag });
  const open =
    (method: Route['method']) =>
    (path: string, operationId: string, definition: Definition<Omit<Route, 'access'>>): Route => ({
      ...definition,
      access: 'open',
      method,
      path,
      operationId,
      tag,
    });
  return {
    get: of('get'),
    post: of('post'),
    put: of('put'),
    patch: of('patch'),
    remove: of('delete'),
    getOpen: open('get'),
    postOpen: open('post'),
    getInSession: <P>(
      path: string,
      operationId: string,
      definition: Definition<SessionRoute<P>>,
    ): Route => sessionRoute({ ...definition, method: 'get', path, operationId, tag }),
  };
}

/** The response of an endpoint that has nothing else to return. */
export const successSchema = z.object({ success: z.literal(true) });
export const success = { json: { success: true } } as const;

export type OwnCall = Pick<
  Call<{ readonly id: string }, unknown, unknown, unknown>,
  'owner' | 'params' | 'about'
>;

/** Records the name of the object for the audit log. Throws 404 if the object is undefined. */
function found<T extends KubeObject>(
  what: 'conversation' | 'sandbox',
  object: T | undefined,
  { about }: OwnCall,
): T {
  if (object === undefined) throw notFound(what);
  about(`${what}/${object.metadata.name}`);
  return object;
}

export const ownConversation = async (lookup: ResourceLookup, call: OwnCall) =>
  found('conversation', await lookup.conversation(call.owner, call.params.id), call);

export const ownSandbox = async (lookup: ResourceLookup, call: OwnCall) =>
  found('sandbox', await lookup.sandbox(call.owner, call.params.id), call);

/** Throws 409 if the object moves to another owner. */
function staying<T extends { readonly spec: { readonly handover?: unknown } }>(object: T): T {
  if (object.spec.handover !== undefined) throw moving();
  return object;
}

/** Like `ownConversation`, for a request that changes the conversation or its sandbox. */
export const changeableConversation = async (lookup: ResourceLookup, call: OwnCall) =>
  staying(await ownConversation(lookup, call));

/**
 * Like `ownSandbox`, for a request that changes the sandbox. The lock of its conversation counts
 * too: writes of the old owner would otherwise keep the operator from locking the sandbox.
 */
export const changeableSandbox = async (lookup: ResourceLookup, call: OwnCall) => {
  const sandbox = staying(await ownSandbox(lookup, call));
  lookup.conversationsNaming(sandbox.metadata.name).forEach(staying);
  return sandbox;
};
