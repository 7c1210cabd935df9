import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import { compact } from '@conversation-operator/base/compact';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import { isLive } from '@conversation-operator/kube/object';
import type { Audit } from '../../observability/audit.ts';
import { conversations } from '../../resources/conversation.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { apiVersion } from '../../resources/group.ts';
import { ownerName } from '../../resources/schema.ts';
import {
  isShareOf,
  maxGroupLength,
  shareNameOf,
  shares,
  type Share,
  type ShareSpec,
} from '../../resources/share.ts';
import { generateKey, hashKey, type RandomBytes } from '../auth/key.ts';
import type { KeyRing, Principal } from '../auth/key-ring.ts';
import { notFound } from '../errors/common-problems.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';
import { conversationParams, optional, time } from '../http/fields.ts';
import {
  callerOf,
  changeableConversation,
  endpoints,
  ownConversation,
  type Route,
} from '../http/route.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { deleteOne } from '../lookup/stored.ts';
import { nullableText, timestampSchema, wireTime } from '../presenters/schemas.ts';
import { expiresAt, subjectKindOf, subjectKinds, type SubjectKind } from './shared-record.ts';

/** Maximum shares of one conversation, and of one owner, that have not expired. */
export const maxSharesOfConversation = 20;
export const maxSharesOfOwner = 200;
/** Maximum groups that an error names; the error has the number of the others. */
const maxNamedGroups = 50;

const subjectSchema = z
  .strictObject({
    kind: z.enum(subjectKinds),
    name: optional(z.string().min(1).max(maxGroupLength)).describe(
      'The owner as whom a person is signed in, or a group as ISSUER:VALUE. A link has none.',
    ),
  })
  .superRefine(({ kind, name }, context) => {
    const add = (message: string) => context.addIssue({ code: 'custom', path: ['name'], message });
    if (kind === 'link' && name !== undefined) add('must be absent for a link');
    if (kind !== 'link' && name === undefined) add(`is required for a ${kind}`);
    if (kind === 'user' && name !== undefined && !ownerName().safeParse(name).success)
      add('must be the name of an owner');
  });

export const shareRequestSchema = z.strictObject({
  subject: subjectSchema,
  expires_at: optional(time()).describe(
    'When the link stops opening the conversation; by default never, or at the end of the maximum lifetime of keys of the installation, and never later than that.',
  ),
});
type ShareRequest = z.output<typeof shareRequestSchema>;

export const shareSchema = z.object({
  id: z.string(),
  subject: z.object({ kind: z.enum(subjectKinds), name: nullableText }),
  created_at: timestampSchema,
  created_by: z.string().describe('Name of the key or session that created it.'),
  expires_at: timestampSchema.nullable().describe('When it stops; null: never.'),
});
export const createdShareSchema = shareSchema.extend({
  url: z.string().describe('The link. It is shown only now.'),
});
export type ShareRecord = z.output<typeof shareSchema>;

const present = ({ metadata, spec }: Share): ShareRecord => ({
  id: metadata.name,
  subject: { kind: subjectKindOf(spec), name: spec.subject.name ?? null },
  created_at: wireTime(metadata.creationTimestamp),
  created_by: spec.createdBy,
  expires_at: expiresAt(spec),
});

const storedKinds = { link: 'Link', user: 'User', group: 'Group' } as const satisfies Record<
  SubjectKind,
  ShareSpec['subject']['kind']
>;

interface ShareNeeds {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly audit: Audit;
  readonly lookup: ResourceLookup;
  readonly ring: Pick<KeyRing, 'keyNamed'>;
  readonly publicUrl: () => string;
  readonly maxKeyLifetimeMs: number | undefined;
  /** Groups that the settings of the identity providers know. */
  readonly groups: readonly string[];
}

const base = '/api/v1/app-conversations/{id}/shares';
const { get, post, remove } = endpoints('sharing');

export const shareRoutes = (needs: ShareNeeds): readonly Route[] => [
  get(base, 'listShares', {
    summary: 'Who may read a conversation by a link, without the links, oldest first',
    params: conversationParams,
    responses: { 200: z.array(shareSchema) },
    problems: ['not-found'],
    handle: async (call) => {
      const conversation = await ownConversation(needs.lookup, call);
      const known = await sharesOf(needs, call.owner);
      return { json: known.filter((share) => isShareOf(share, conversation)).map(present) };
    },
  }),
  post(base, 'createShare', {
    summary:
      'Share a conversation by a link, with everybody who has the link, a person or a group, to read it; the answer shows the link for the only time',
    params: conversationParams,
    body: shareRequestSchema,
    responses: { 201: createdShareSchema },
    problems: ['not-found', 'wrong-state', 'too-many-shares'],
    handle: async ({ principal, body, ...call }) => {
      const { client, namespace, random } = needs;
      refuseUnknownGroup(needs.groups, body);
      const expirationTime = expiryOf(body, needs);
      const conversation = await changeableConversation(needs.lookup, call);
      refuseTooMany(await sharesOf(needs, call.owner), conversation, needs);
      const token = generateKey(random, 'cs_');
      const sha256 = hashKey(token);
      const { name, uid } = conversation.metadata;
      const share = await client.create(shares, {
        apiVersion,
        kind: shares.kind,
        metadata: {
          namespace,
          name: shareNameOf(sha256),
          // Kubernetes deletes the share with its conversation.
          ownerReferences: [{ apiVersion, kind: conversations.kind, name, uid }],
        },
        spec: compact({
          owner: call.owner,
          conversation: compact({ name, uid, handovers: conversation.spec.handovers }),
          subject: compact({ kind: storedKinds[body.subject.kind], name: body.subject.name }),
          sha256,
          expirationTime,
          createdBy: principal.keyName,
          issuedBy: issuerOf(needs.ring, principal),
        }),
      });
      call.about(targetOf(share));
      needs.audit('ShareCreated', {
        ...callerOf({ principal, response: call.response }),
        ...auditedAs(share),
        with: share.spec.subject,
        expires: expirationTime,
      });
      return { status: 201, json: { ...present(share), url: urlOf(needs, token) } };
    },
  }),
  remove(`${base}/{share_id}`, 'revokeShare', {
    summary: 'Revoke a share: its link opens nothing within 5 seconds',
    params: conversationParams.extend({ share_id: z.string() }),
    responses: { 204: z.unknown() },
    problems: ['not-found'],
    handle: async ({ principal, params, ...call }) => {
      const conversation = await ownConversation(needs.lookup, { ...call, params });
      const share = await shareNamed(needs, params.share_id);
      if (share?.spec.owner !== call.owner || !isShareOf(share, conversation))
        throw notFound('share');
      call.about(targetOf(share));
      await deleteOne(needs.client, shares, share, { settled: () => Promise.resolve(undefined) });
      const caller = callerOf({ principal, response: call.response });
      needs.audit('ShareRevoked', { ...caller, ...auditedAs(share) });
      call.response.status(204).end();
      return 'sent' as const;
    },
  }),
];

const targetOf = ({ metadata, spec }: Share): string =>
  `share/${metadata.name} of conversation/${spec.conversation.name}`;

/** A share in the audit log. */
const auditedAs = ({ metadata, spec }: Share) => ({
  share: metadata.name,
  conversation: spec.conversation.name,
});

const urlOf = ({ publicUrl }: ShareNeeds, token: string): string =>
  `${publicUrl()}/shared/${token}`;

/** The shares of an owner, oldest first, from the API server: another replica may have written. */
async function sharesOf(
  { client, namespace }: Pick<ShareNeeds, 'client' | 'namespace'>,
  owner: string,
): Promise<readonly Share[]> {
  const { items } = await client.list(shares, { namespace, fieldSelector: `spec.owner=${owner}` });
  return items
    .filter((share) => share.spec.owner === owner && isLive(share))
    .toSorted((one, other) =>
      `${one.metadata.creationTimestamp} ${one.metadata.name}` <
      `${other.metadata.creationTimestamp} ${other.metadata.name}`
        ? -1
        : 1,
    );
}

async function shareNamed(
  { client, namespace }: ShareNeeds,
  name: string,
): Promise<Share | undefined> {
  if (!/^share-[0-9a-f]{40}$/.test(name)) return undefined;
  const share = await found(client.get(shares, namespace, name));
  return share !== undefined && isLive(share) ? share : undefined;
}

/** Requests at the same time may exceed the limits by their number; the object quota never. */
function refuseTooMany(
  known: readonly Share[],
  conversation: CachedConversation,
  { clock, lookup }: Pick<ShareNeeds, 'clock' | 'lookup'>,
): void {
  const open = known.filter((share) => {
    const { expirationTime, conversation: shared } = share.spec;
    // The owner can not revoke shares of a conversation that another owner has now.
    const current = lookup.cachedConversation(shared.name);
    return (
      (current === undefined || isShareOf(share, current)) &&
      (expirationTime === undefined || Date.parse(expirationTime) > clock.now())
    );
  });
  const ofConversation = open.filter((share) => isShareOf(share, conversation));
  const refusal = (what: string, limit: number, current: number) =>
    new ProblemError(
      'too-many-shares',
      `${what} can have ${limit} shares, and has ${current}. Revoke one that is not needed.`,
      { usage: { limit, current } },
    );
  if (ofConversation.length >= maxSharesOfConversation)
    throw refusal('A conversation', maxSharesOfConversation, ofConversation.length);
  if (open.length >= maxSharesOfOwner) throw refusal('An owner', maxSharesOfOwner, open.length);
}

/** Throws 422 with the groups that the settings know. A person of any owner may sign in later. */
function refuseUnknownGroup(groups: readonly string[], { subject }: ShareRequest): void {
  if (subject.kind !== 'group' || subject.name === undefined || groups.includes(subject.name))
    return;
  const more = groups.length - maxNamedGroups;
  const named = groups.slice(0, maxNamedGroups).join(', ');
  throw invalidField(
    'body.subject.name',
    groups.length === 0
      ? 'must be a group, and this service knows none: its settings have no identity provider'
      : `must be one of the groups ${named}${more > 0 ? ` and ${more} more` : ''}`,
  );
}

/** Expiration time in RFC 3339; undefined: never. Throws 422 for a time that is not allowed. */
function expiryOf(
  { expires_at: wanted }: ShareRequest,
  { clock, maxKeyLifetimeMs }: Pick<ShareNeeds, 'clock' | 'maxKeyLifetimeMs'>,
): string | undefined {
  const nowMs = clock.now();
  const latestMs = nowMs + (maxKeyLifetimeMs ?? Infinity);
  const path = 'body.expires_at';
  if (wanted !== undefined && wanted <= nowMs) throw invalidField(path, 'must be in the future');
  if (wanted !== undefined && wanted > latestMs)
    throw invalidField(path, `must not be later than ${new Date(latestMs).toISOString()}`);
  const expiry = wanted ?? latestMs;
  return expiry === Infinity ? undefined : new Date(expiry).toISOString();
}

/**
 * The key on which a share depends, so that a stolen key opens nothing once it is revoked: the API
 * key of the request, or the one that has opened its session. A person who signs out keeps shares;
 * those of a service account end with its hourly key.
 */
function issuerOf(
  ring: ShareNeeds['ring'],
  { keyName: name, keyUid: uid }: Principal,
): ShareSpec['issuedBy'] {
  const key = ring.keyNamed(name, uid);
  return key?.spec.signIn === 'Session' ? key.spec.issuedBy : { name, uid };
}
