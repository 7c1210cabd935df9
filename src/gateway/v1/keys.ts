import { z } from 'zod';
import { isNotFound } from '../../kube/errors.ts';
import { apiKeyRoles, apiKeys } from '../../resources/api-key.ts';
import { ownerName } from '../../resources/schema.ts';
import { keyRoute, type Route } from '../app/route.ts';
import type { Services } from '../app/services.ts';
import type { Principal } from '../auth/authenticate.ts';
import { issueKey } from '../auth/issue-key.ts';
import { notFound, ProblemError } from '../errors/problem-error.ts';
import { invalidRequest } from '../errors/validation.ts';
import { apiKeyRecord, apiKeySchema, issuedApiKeySchema } from '../views/api-key.ts';
import { success, successSchema } from './answers.ts';
import { label, optional, time } from './fields.ts';

const base = '/api/keys';
const tag = 'account';
/** Of one owner. A list of them needs no pages then. */
const maxKeys = 100;

export const keyRequestSchema = z.object({
  name: label(200).trim().min(1, 'must not be empty'),
  expires_at: optional(time()).meta({ description: 'When it stops working; by default never.' }),
  owner: optional(ownerName()).meta({ description: 'Whom the key is for. Only keys with the role admin may name somebody else.' }),
  role: optional(z.enum(apiKeyRoles)).meta({ description: 'user by default. Only keys with the role admin may make more of their kind.' }),
});
type KeyRequest = z.output<typeof keyRequestSchema>;

const byorSchema = z.object({ key: z.null() });

export const keyRoutes = (services: Services): readonly Route[] => [
  keyRoute({
    method: 'get',
    path: base,
    operationId: 'listKeys',
    tag,
    summary: 'Your API keys, without their values',
    answers: { 200: z.array(apiKeySchema) },
    handle: ({ owner }) => ({
      json: services.records
        .apiKeysOf(owner)
        .map(apiKeyRecord)
        .sort((left, right) => (left.created_at + left.id < right.created_at + right.id ? -1 : 1)),
    }),
  }),
  keyRoute({
    method: 'post',
    path: base,
    operationId: 'createKey',
    tag,
    summary: 'Make an API key; the answer shows it for the only time',
    body: keyRequestSchema,
    answers: { 201: issuedApiKeySchema },
    problems: ['forbidden', 'too-many-keys'],
    handle: async ({ principal, body, about }) => {
      const owner = ownerFor(principal, body);
      if (body.expires_at !== undefined && body.expires_at <= services.clock.now()) {
        throw invalidRequest([{ path: 'body.expires_at', message: 'must be in the future' }]);
      }
      if (services.records.apiKeysOf(owner).length >= maxKeys) {
        throw new ProblemError('too-many-keys', `An owner can have ${maxKeys} keys. Revoke one that is not needed.`);
      }
      const { key, resource } = await issueKey({
        client: services.client,
        namespace: services.namespace,
        random: services.random,
        owner,
        role: body.role ?? 'user',
        description: body.name,
        ...(body.expires_at === undefined ? {} : { expiresAt: new Date(body.expires_at).toISOString() }),
      });
      about(`key/${resource.metadata.name} of ${owner}`);
      await services.feeds.apiKeys.settled(resource.metadata.name, (seen) => seen !== undefined);
      return { status: 201, json: { ...apiKeyRecord(resource), key } };
    },
  }),
  keyRoute({
    method: 'delete',
    path: `${base}/{id}`,
    operationId: 'revokeKey',
    tag,
    summary: 'Revoke one of your API keys',
    params: z.object({ id: z.string() }),
    answers: { 200: successSchema },
    problems: ['not-found', 'conflict'],
    handle: async ({ owner, params, about }) => {
      const found = await services.records.apiKey(owner, params.id);
      if (found === undefined) throw notFound('API key');
      const { name, namespace, uid } = found.metadata;
      about(`key/${name}`);
      try {
        await services.client.delete(apiKeys, namespace, name, { uid });
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
      await services.feeds.apiKeys.settled(name, (seen) => seen?.metadata.uid !== uid || seen.metadata.deletionTimestamp !== undefined);
      return success;
    },
  }),
  keyRoute({
    method: 'get',
    path: `${base}/llm/byor`,
    operationId: 'getModelKey',
    tag,
    summary: 'A key for models of your own: there is none, models are configured with the sandboxes',
    answers: { 200: byorSchema },
    handle: () => ({ json: { key: null } }),
  }),
];

/** Throws 403 where the key that asks is not an admin's, and the wish is beyond its own owner and role. */
function ownerFor({ owner, role }: Principal, wish: KeyRequest): string {
  if (role !== 'admin' && wish.role === 'admin')
    throw new ProblemError('forbidden', 'Only a key with the role admin can make another one.');
  if (role !== 'admin' && (wish.owner ?? owner) !== owner) {
    throw new ProblemError('forbidden', 'Only a key with the role admin can make keys for somebody else.');
  }
  return wish.owner ?? owner;
}
