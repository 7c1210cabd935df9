import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import { type RandomBytes, issueKey } from '../auth/key.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import { z } from 'zod';
import {
  apiKeyRoles,
  apiKeys,
  apiKeyScopes,
  type ApiKey,
  type ApiKeyScope,
} from '../../resources/api-key.ts';
import { ownerName } from '../../resources/schema.ts';
import { type Route, callerOf, endpoints, success, successSchema } from '../http/route.ts';
import type { Audit } from '../../observability/audit.ts';
import { type Principal, refuseTooDeep, requireScope, type KeyRing } from '../auth/key-ring.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound, onlyAdmin } from '../errors/common-problems.ts';
import { searchPage, creationOf, sortedBy } from '../paging/keyset.ts';
import { deleteOne } from '../lookup/stored.ts';
import { shownName, optional, paging, time, unusedParameter } from '../http/fields.ts';
import { invalidField } from '../errors/validation.ts';
import { nullableText, timestampSchema, wireTime } from '../presenters/schemas.ts';

export const apiKeySchema = z.object({
  id: z.string(),
  name: z.string(),
  user_id: z.string(),
  role: z.enum(apiKeyRoles),
  scopes: z
    .array(z.enum(apiKeyScopes))
    .describe('What it opens, as long as the keys that it depends on open it.'),
  created_at: timestampSchema,
  last_used_at: timestampSchema
    .nullable()
    .describe('To the hour; null: not yet, or within the last minute.'),
  not_before: timestampSchema.nullable().describe('When it begins to work; null: at once.'),
  expires_at: timestampSchema.nullable().describe('When it stops working; null: never.'),
  issued_by: nullableText.describe('The key that made it, and that it ends with; null: none.'),
});
export type ApiKeyRecord = z.output<typeof apiKeySchema>;
export const issuedApiKeySchema = apiKeySchema.extend({
  key: z.string().describe('The key itself. It is shown only now.'),
});

/** Null for an unreadable time, which `kubectl` may have stored. Such a key counts as expired. */
const timeOrNull = (text: string | undefined): string | null =>
  text === undefined || Number.isNaN(Date.parse(text)) ? null : wireTime(text);

const presentApiKey = ({ metadata, spec, status }: ApiKey): ApiKeyRecord => ({
  id: metadata.name,
  name: spec.description ?? metadata.name,
  user_id: spec.owner,
  role: spec.role,
  scopes: spec.scopes ?? [...apiKeyScopes],
  created_at: wireTime(metadata.creationTimestamp),
  last_used_at: timeOrNull(status?.lastUsedTime),
  not_before: timeOrNull(spec.notBefore),
  expires_at: timeOrNull(spec.expirationTime),
  issued_by: spec.issuedBy?.name ?? null,
});

const dayMs = 24 * 60 * 60 * 1000;
const path = 'body.expires_at';

interface NewKeyLimits {
  readonly chain: Principal['chain'];
  /** Maximum lifetime of a key that is created over REST; undefined without a maximum. */
  readonly maxLifetimeMs: number | undefined;
  readonly nowMs: number;
}

/**
 * Expiration time of a new key in milliseconds; undefined means never. A key that is created over
 * REST never outlives its issuer, nor `maxLifetimeMs`. Throws 422 for a later time or a time in the
 * past; the default is the earlier of the two limits.
 */
function expiryOfNewKey(
  wanted: number | undefined,
  { chain, maxLifetimeMs, nowMs }: NewKeyLimits,
): number | undefined {
  const latestMs = nowMs + (maxLifetimeMs ?? Infinity);
  const firstEndMs = Math.min(chain.expiresAtMs, latestMs);
  if (wanted === undefined) return firstEndMs === Infinity ? undefined : firstEndMs;
  if (wanted <= nowMs) throw invalidField(path, 'must be in the future');
  if (wanted > chain.expiresAtMs) {
    const expiry = new Date(chain.expiresAtMs).toISOString();
    throw invalidField(
      path,
      `must not be later than the expiry of the key that makes it, ${expiry}`,
    );
  }
  if (wanted > latestMs) {
    const days = Number(((maxLifetimeMs ?? 0) / dayMs).toFixed(2));
    throw invalidField(path, `must be at most ${days} days from now`);
  }
  return wanted;
}

/** The scopes to store: a key whose issuer lacks some states those that it has. */
const scopesOfNewKey = (
  { scopes }: Principal['chain'],
  wanted: readonly ApiKeyScope[] | undefined,
): ApiKeyScope[] | undefined =>
  wanted === undefined && scopes.size === apiKeyScopes.length
    ? undefined
    : [...new Set(wanted ?? scopes)];

const base = '/api/keys';
const { get, post, remove } = endpoints('account');
/** Maximum keys of one owner, so that a list of them needs no pages. */
const maxKeys = 100;

/** Throws `too-many-keys` if the owner can have no more keys for requests. */
export function refuseTooManyKeys(lookup: Pick<ResourceLookup, 'apiKeysOf'>, owner: string): void {
  const known = lookup.apiKeysOf(owner).filter(({ spec }) => spec.signIn === undefined);
  if (known.length >= maxKeys)
    throw new ProblemError(
      'too-many-keys',
      `An owner can have ${maxKeys} keys. Revoke one that is not needed.`,
    );
}

/** Value of the query parameter `owner` that means every owner. No owner has this name. */
const everyOwner = '*';

export const keyRequestSchema = z.strictObject({
  name: shownName(200),
  expires_at: optional(time()).describe(
    'When it stops working; by default when the key that makes it does, or at the end of the maximum lifetime of the installation. Never later than these.',
  ),
  owner: optional(ownerName()).describe(
    'Whom the key is for. Only keys with the role admin may name another owner.',
  ),
  scopes: optional(z.array(z.enum(apiKeyScopes)).min(1).max(apiKeyScopes.length)).describe(
    'What it opens; by default all that the key of the request opens, and never more.',
  ),
  not_before: optional(time()).describe('When it begins to work; by default at once.'),
  role: optional(z.enum(apiKeyRoles)).describe(
    'user by default. Only keys with the role admin may make more of their kind.',
  ),
});
type KeyRequest = z.output<typeof keyRequestSchema>;

const listQuery = z.object({
  owner: z
    .union([z.literal(everyOwner), ownerName()], { error: 'must be the name of an owner, or *' })
    .optional()
    .describe(
      'Whose keys, * for those of every owner; only keys with the role admin may name another owner. Then limit and page_id count, and the header Link leads to the next page.',
    ),
  ...paging,
  page_id: z.string().optional().describe('As in the Link of the answer before.'),
});

const byorSchema = z.object({ key: z.null() });

interface KeyNeeds {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly lookup: ResourceLookup;
  readonly ring: KeyRing;
  readonly feeds: { readonly apiKeys: ObjectFeed<ApiKey> };
  readonly publicUrl: () => string;
  readonly audit: Audit;
  readonly maxKeyLifetimeMs: number | undefined;
}

export const keyRoutes = (needs: KeyNeeds): readonly Route[] => [
  get(base, 'listKeys', {
    summary: 'Your API keys, without their values; for an admin also those of others',
    query: listQuery,
    responses: { 200: z.array(apiKeySchema) },
    problems: ['forbidden'],
    hasNextLink: true,
    handle: ({ principal, owner, query, response }) => {
      const { owner: wanted = owner, limit } = query;
      if (principal.role !== 'admin' && wanted !== owner)
        throw onlyAdmin('list the keys of others');
      const keys = listed(needs, wanted === everyOwner ? undefined : wanted);
      const sorted = sortedBy(keys, creationOf);
      if (query.owner === undefined) return { json: sorted.map(({ item }) => presentApiKey(item)) };
      const order = `keys/${wanted}`;
      const page = searchPage(sorted, { ...query, order, descending: false });
      if (page.next_page_id !== null) {
        const { next_page_id: page_id } = page;
        const parameters = new URLSearchParams({ owner: wanted, limit: String(limit), page_id });
        const url = `${needs.publicUrl()}${base}?${parameters.toString()}`;
        response.setHeader('link', `<${url}>; rel="next"`);
      }
      return { json: page.items.map(presentApiKey) };
    },
  }),
  post(base, 'createKey', {
    summary:
      'Make an API key, which ends with the key that makes it; the answer shows it for the only time',
    body: keyRequestSchema,
    responses: { 201: issuedApiKeySchema },
    problems: ['forbidden', 'too-many-keys', 'key-depth-exceeded'],
    handle: async ({ principal, body, about, response }) => {
      const owner = ownerFor(principal, body);
      refuseTooDeep(principal.chain);
      const expiresAtMs = expiryOfNewKey(body.expires_at, {
        chain: principal.chain,
        maxLifetimeMs: needs.maxKeyLifetimeMs,
        nowMs: needs.clock.now(),
      });
      const { not_before: notBeforeMs, scopes } = body;
      if (notBeforeMs !== undefined && notBeforeMs >= (expiresAtMs ?? Infinity))
        throw invalidField('body.not_before', 'must be before the key stops working');
      for (const scope of scopes ?? []) requireScope(principal.chain, scope);
      refuseTooManyKeys(needs.lookup, owner);
      const { key, resource } = await issueKey({
        client: needs.client,
        namespace: needs.namespace,
        random: needs.random,
        owner,
        role: body.role ?? 'user',
        description: body.name,
        issuedBy: { name: principal.keyName, uid: principal.keyUid },
        scopes: scopesOfNewKey(principal.chain, scopes),
        templates: principal.chain.templates && [...principal.chain.templates],
        notBefore: notBeforeMs === undefined ? undefined : new Date(notBeforeMs).toISOString(),
        expiresAt: expiresAtMs === undefined ? undefined : new Date(expiresAtMs).toISOString(),
      });
      about(targetOf(resource));
      needs.audit('KeyCreated', {
        ...callerOf({ principal, response }),
        ...createdFields(resource),
      });
      await needs.feeds.apiKeys.settled(resource.metadata.name, (seen) => seen !== undefined);
      return { status: 201, json: { ...presentApiKey(resource), key } };
    },
  }),
  remove(`${base}/{id}`, 'revokeKey', {
    summary:
      'Revoke one of your API keys, and with it the keys that it made and what they opened; for an admin also those of others',
    params: z.object({ id: z.string() }),
    responses: { 200: successSchema },
    problems: ['not-found', 'conflict'],
    handle: async ({ principal, owner, params, about, response }) => {
      const { client, feeds, lookup, audit } = needs;
      const object = await lookup.apiKey(principal.role === 'admin' ? undefined : owner, params.id);
      if (object === undefined) throw notFound('API key');
      about(targetOf(object));
      await deleteOne(client, apiKeys, object, feeds.apiKeys);
      const revoked = { revoked: object.metadata.name, revokedOf: object.spec.owner };
      audit('KeyRevoked', { ...callerOf({ principal, response }), ...revoked });
      return success;
    },
  }),
  get(`${base}/llm/byor`, 'getModelKey', {
    summary:
      'A key for models of your own: there is none, models are configured with the sandboxes',
    responses: { 200: byorSchema },
    handle: () => ({ json: { key: null } }),
  }),
];

/** The key as the audit log names it, with its owner: an admin may change another owner's key. */
const targetOf = ({ metadata, spec }: ApiKey): string => `key/${metadata.name} of ${spec.owner}`;

/** A new key in a line `KeyCreated` of the audit log. */
export const createdFields = ({ metadata, spec }: Pick<ApiKey, 'metadata' | 'spec'>) => ({
  made: metadata.name,
  madeFor: spec.owner,
  role: spec.role,
  scopes: spec.scopes ?? apiKeyScopes,
  expires: spec.expirationTime,
});

/** Omits keys with a deleted issuer: such keys are invalid, and Kubernetes deletes them soon. */
const listed = ({ lookup, ring }: KeyNeeds, owner: string | undefined): readonly ApiKey[] =>
  (owner === undefined ? lookup.everyApiKey() : lookup.apiKeysOf(owner)).filter(
    (key) => key.spec.signIn !== 'Device' && !ring.isOrphan(key),
  );

/** The owner of the new key. Throws 403 if a user asks for another owner or the role admin. */
function ownerFor({ owner, role }: Principal, wish: KeyRequest): string {
  if (role !== 'admin' && wish.role === 'admin') throw onlyAdmin('make another one');
  if (role !== 'admin' && (wish.owner ?? owner) !== owner)
    throw onlyAdmin('make keys for another owner');
  return wish.owner ?? owner;
}

const userSchema = z.object({
  id: z.string(),
  email: z.string().nullable(),
  name: nullableText.describe('The name of a person, from the identity provider; null: none.'),
  role: z.enum(['user', 'admin']),
  scopes: z.array(z.enum(apiKeyScopes)).describe('What the key or session opens now.'),
});
export type AccountRecord = z.output<typeof userSchema>;
const keySchema = z.object({
  id: z.string(),
  name: z.string(),
  user_id: z.string(),
  auth_type: z.literal('bearer'),
  scopes: z.array(z.enum(apiKeyScopes)).describe('What it opens now.'),
});

/**
 * Endpoints about the account of a key. The responses have no `org_id`: a client that gets one
 * switches to that organization, and leaves the page that it shows.
 */
export const accountRoutes: readonly Route[] = [
  get('/api/v1/users/me', 'getUser', {
    scope: 'any',
    summary: 'Whom the key belongs to',
    query: z.object({
      expose_secrets: unusedParameter('no answer shows a secret, nor the key of a model.'),
    }),
    responses: { 200: userSchema },
    handle: ({ principal: { owner, role, personName = null, chain } }) => ({
      json: { id: owner, email: null, name: personName, role, scopes: [...chain.scopes] },
    }),
  }),
  get('/api/keys/current', 'getCurrentKey', {
    scope: 'any',
    summary: 'The key that the request was made with',
    responses: { 200: keySchema },
    handle: ({ principal: { owner, keyName, keyDescription, chain } }) => ({
      json: {
        id: keyName,
        name: keyDescription ?? keyName,
        user_id: owner,
        auth_type: 'bearer',
        scopes: [...chain.scopes],
      },
    }),
  }),
];
