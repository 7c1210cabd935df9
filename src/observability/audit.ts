import { z } from 'zod';
import { handoverAnswers } from '../resources/handover.ts';
import { shareSubjectKinds } from '../resources/share.ts';

const text = z.string();
const texts = z.array(z.string()).readonly();
const outcome = z.enum(['Accepted', 'Rejected', 'Unknown']);

/** Where a request comes from. Every line has its id, and the address of its client. */
const origin = { requestId: text, client: text };
export type AuditOrigin = z.output<z.ZodObject<typeof origin>>;

const person = z.object({ issuer: text, subject: text, name: text });

/** The holder of a key: the person, session or service account that the key follows from. */
const holder = {
  owner: text,
  key: text,
  person: person.optional(),
  session: text.optional(),
  serviceAccount: text.optional(),
};
export type AuditHolder = z.output<z.ZodObject<typeof holder>>;

/** Someone who may have no key. */
const anyone = z.object(holder).partial().shape;

/** Someone who acts for an owner, with a key or as an agent. */
const actor = { ...anyone, owner: text };

/** A process in a sandbox, which acts for the owner. */
const agent = { owner: text, sandbox: text, by: z.literal('agent') };

/**
 * A controller, which carries out what a request has decided. The handover in the line leads to the
 * line of that request.
 */
const operator = { by: z.literal('operator') };

type Who = typeof holder | typeof anyone | typeof actor | typeof agent;

/** A kind of line: who, what, from where, and the id of the request. */
const kind = <W extends Who, F extends Readonly<Record<string, z.ZodType>>>(
  when: string,
  who: W,
  fields: F,
) => ({ when, schema: z.strictObject({ ...origin, ...who, ...fields }) });

const conversation = { conversation: text };
const ofPush = { ...conversation, provider: text, repository: text };
const change = { id: text, ref: text, oldId: text, newId: text };
const newKey = { made: text, madeFor: text, role: text, scopes: texts, expires: text.optional() };
/** A request of a client or of an agent about the pull requests of a conversation. */
const ofPullRequest = {
  ...conversation,
  by: z.enum(['client', 'agent', 'gateway']),
  sandbox: text.optional(),
  provider: text,
  repository: text,
};
const wantedPullRequest = { head: text, base: text, draft: z.boolean() };
const share = { ...conversation, share: text };
const handover = { ...conversation, handover: text };

/**
 * Why a session has ended before its time. An identity provider ends one whose person has no rights
 * any more (Refused) or other ones, and one whose access token is not active any more.
 */
const sessionEnds = [
  'SignedOut',
  'Refused',
  'OtherRights',
  'TokenEnded',
  'Replaced',
  'TooMany',
] as const;

/**
 * All kinds of lines of the audit log, and their fields. Programs read the lines: a kind and a
 * field keep their names, and new fields are optional for a reader. No field has a key, the value
 * of a secret, or the text of a message.
 */
export const auditKinds = {
  Write: kind('each write by REST', holder, {
    action: text,
    target: text.optional(),
    status: z.int(),
    outcome: text,
  }),
  Refused: kind('each 401, 403 and 429, up to the bound below', anyone, {
    action: text,
    sandbox: text.optional(),
    status: z.int(),
    outcome: text,
    repeats: z.int().optional(),
  }),
  SignIn: kind('a sign-in, and each return from an identity provider', holder, {
    way: z.enum(['provider', 'link', 'key']),
    isNew: z.boolean(),
    role: text,
    scopes: texts.optional(),
    credential: text.optional(),
    issuer: text.optional(),
    subject: text.optional(),
    name: text.optional(),
  }),
  SignInRefused: kind('a sign-in that fails', anyone, {
    way: z.enum(['provider', 'link', 'key']),
    issuer: text.optional(),
    reason: text,
    repeats: z.int().optional(),
  }),
  SessionEnded: kind('a session that ends before its time', holder, {
    reason: z.enum(sessionEnds),
    detail: text.optional(),
  }),
  DeviceLogin: kind('the answer of a person to a program', holder, {
    program: text,
    address: text,
    isAllowed: z.boolean(),
    made: text.optional(),
    scopes: texts.optional(),
  }),
  DeviceKeyRead: kind('a program gets its key', holder, { program: text }),
  KeyCreated: kind('a new key, also the hourly one of a service account', holder, newKey),
  KeyRevoked: kind('a key is revoked by REST', holder, { revoked: text, revokedOf: text }),
  SessionKeyRead: kind('an answer with session keys, repetitions once an hour', holder, {
    action: text.optional(),
    status: z.int(),
    sandboxes: texts,
    more: z.int().optional(),
  }),
  SecretRead: kind('a secret is read, repetitions once a minute', actor, {
    sandbox: text,
    conversation: text.optional(),
    secret: text,
    by: text,
    repeats: z.int().optional(),
  }),
  ApprovalAnswered: kind('an answer to the question of an agent is stored', holder, {
    ...conversation,
    approval: text,
    answer: text,
  }),
  PushStarted: kind('each reference of a push, before the git host gets it', agent, {
    ...ofPush,
    ...change,
  }),
  Push: kind('and afterwards', agent, { ...ofPush, ...change, outcome, bytes: z.int() }),
  PushRefused: kind('a push that the gateway rejects', agent, {
    ...ofPush,
    conversation: text.optional(),
    refs: texts,
    options: texts.optional(),
    reasons: texts,
  }),
  PullRequestStarted: kind('a pull request, before the git host gets it', actor, {
    ...ofPullRequest,
    ...wantedPullRequest,
  }),
  PullRequest: kind('and afterwards', actor, {
    ...ofPullRequest,
    ...wantedPullRequest,
    outcome,
    number: z.int().optional(),
    url: text.optional(),
    isNew: z.boolean().optional(),
  }),
  PullRequestCommentStarted: kind('a comment, before the git host gets it', actor, {
    ...ofPullRequest,
    number: z.int(),
  }),
  PullRequestComment: kind('and afterwards', actor, {
    ...ofPullRequest,
    number: z.int(),
    outcome,
    url: text.optional(),
  }),
  ShareCreated: kind('a conversation is shared', holder, {
    ...share,
    with: z.object({ kind: z.enum(shareSubjectKinds), name: text.optional() }),
    expires: text.optional(),
  }),
  ShareRevoked: kind('a share is revoked', holder, share),
  ShareOpened: kind('a share is opened, repetitions of a reader once a minute', anyone, {
    ...share,
    sharedBy: text,
    repeats: z.int().optional(),
  }),
  HandoverOffered: kind('a conversation is offered to another owner', holder, {
    ...handover,
    to: text,
  }),
  HandoverAnswered: kind('that owner answers, or the offer is withdrawn', holder, {
    ...handover,
    from: text,
    to: text,
    answer: z.enum(handoverAnswers),
  }),
  HandoverDone: {
    when: 'the conversation belongs to the new owner',
    schema: z.strictObject({ ...operator, ...handover, from: text, to: text }),
  },
  HandoverRefused: {
    when: 'the conversation stays with its owner',
    schema: z.strictObject({ ...operator, ...handover, from: text, to: text, reason: text }),
  },
} as const;

export type AuditKind = keyof typeof auditKinds;
export type AuditLine<K extends AuditKind> = Readonly<z.output<(typeof auditKinds)[K]['schema']>>;

/** Writes one line of the audit log. */
export type Audit = <K extends AuditKind>(kind: K, line: AuditLine<K>) => void;

/** Destination of lines, such as a `Logger`. */
export interface AuditSink {
  info(message: string, fields: Readonly<Record<string, unknown>>): void;
}

export const auditTo =
  (sink: AuditSink): Audit =>
  (kindOfLine, line) =>
    sink.info(kindOfLine, line);
