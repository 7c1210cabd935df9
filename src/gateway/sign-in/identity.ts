import { createHash } from 'node:crypto';
import { evaluateClaimExpressions, type ClaimExpression } from '../../config/claim-expression.ts';
import type { ApiKeySpec } from '../../resources/api-key.ts';
import { plainText } from '../../resources/plain-text.ts';
import { ownerName } from '../../resources/schema.ts';

/** Names of nested claims, outermost first. */
type ClaimPath = readonly string[];

interface ClaimTest {
  readonly claim: ClaimPath;
  /** The whole value of the claim, or one item of its list. */
  readonly value: string;
}

type IdentityRule = (ClaimTest | { readonly when: ClaimExpression }) & {
  readonly role: 'admin' | 'user' | 'viewer';
  /** Templates that the person may start; absent: all. */
  readonly templates?: readonly string[] | undefined;
};

/** An identity provider, as the platform configures it. */
export interface IssuerSettings {
  /** Names the issuer in addresses, and in owners that its people get by default. */
  readonly name: string;
  /** Name on the button of the page. */
  readonly title?: string | undefined;
  /** URL of the issuer, as its discovery document and its tokens state it. */
  readonly issuer: string;
  readonly clientId: string;
  /** Absent: a public client, which PKCE alone protects. */
  readonly clientSecret?: string | undefined;
  readonly scopes: readonly string[];
  /** Claim with the owner; absent: derived from `name` and the subject. */
  readonly ownerClaim?: ClaimPath | undefined;
  /** Claim with the name that people see. */
  readonly nameClaim: ClaimPath;
  readonly rules: readonly IdentityRule[];
  /** Whether the claim `email` counts without `email_verified: true`. */
  readonly trustsEmail?: boolean | undefined;
  /** Time after which a session asks the issuer again. */
  readonly recheckSeconds: number;
  /** How a session asks the issuer again; by default `prompt`. */
  readonly recheck?: 'prompt' | 'introspection' | undefined;
}

/** The claims of an ID token whose signature, issuer, audience and times hold. */
export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string };

/** Owner and rights of a person, as far as the identity provider decides them. */
export type Identity = Pick<ApiKeySpec, 'owner' | 'role' | 'scopes' | 'templates'> & {
  readonly person: NonNullable<ApiKeySpec['person']>;
};

/** Why a person gets no session, in words for that person. */
export class IdentityRefused extends Error {
  override readonly name = 'IdentityRefused';
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function claimAt(claims: Claims, path: ClaimPath): unknown {
  let value: unknown = claims;
  for (const name of path) {
    if (!isRecord(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;

/** The claim at a path; an email address that the provider has not verified counts as absent. */
const trustedClaim = (
  claims: Claims,
  path: ClaimPath,
  { trustsEmail = false }: IssuerSettings,
): unknown =>
  path[0] === 'email' && !trustsEmail && claims['email_verified'] !== true
    ? undefined
    : claimAt(claims, path);

/** Whether the claim is the value, or has it as an item. No part of a text ever matches. */
function matches(claims: Claims, { claim, value }: ClaimTest, settings: IssuerSettings): boolean {
  const found = trustedClaim(claims, claim, settings);
  return Array.isArray(found)
    ? found.some((item) => textOf(item) === value)
    : textOf(found) === value;
}

/** A rule whose expression gives no answer, which counts as no match. */
export interface RuleFailure {
  /** Index of the rule. */
  readonly rule: number;
  readonly reason: string;
}

/** The rules that match. Expressions see no email address that does not count. */
function matchingRules(
  claims: Claims,
  settings: IssuerSettings,
  failed: (failure: RuleFailure) => void,
): readonly IdentityRule[] {
  const email = trustedClaim(claims, ['email'], settings);
  const { email: _untrusted, ...rest } = claims;
  const expressions = settings.rules.flatMap((rule, index) =>
    'when' in rule ? [{ index, ...rule.when }] : [],
  );
  const answers = evaluateClaimExpressions(
    expressions,
    email === undefined ? rest : { ...rest, email },
  );
  const holds = new Set<number>();
  for (const [at, { index: rule }] of expressions.entries()) {
    const answer = answers[at];
    if (answer === true) holds.add(rule);
    else if (typeof answer === 'object') failed({ rule, reason: answer.failure });
  }
  return settings.rules.filter((rule, index) =>
    'when' in rule ? holds.has(index) : matches(claims, rule, settings),
  );
}

const isOwnerName = (text: string): boolean => ownerName().safeParse(text).success;

/**
 * Owners of different issuers differ, unless `ownerClaim` is set: a name has no colon, and no owner
 * of a claim begins with the name of an issuer.
 */
function ownerOf(claims: Claims, settings: IssuerSettings, issuers: readonly string[]): string {
  const { name, ownerClaim } = settings;
  if (ownerClaim === undefined) {
    const plain = `${name}:${claims.sub}`;
    return isOwnerName(plain)
      ? plain
      : `${name}:${createHash('sha256').update(claims.sub).digest('hex').slice(0, 40)}`;
  }
  const owner = textOf(trustedClaim(claims, ownerClaim, settings));
  if (owner === undefined || !isOwnerName(owner))
    throw new IdentityRefused(
      `The claim ${ownerClaim.join('.')} of your account has to be a name of at most 128 letters, digits and . _ - @ + :`,
    );
  if (issuers.some((issuer) => owner.startsWith(`${issuer}:`)))
    throw new IdentityRefused(
      `The claim ${ownerClaim.join('.')} of your account begins as the names of another identity provider do.`,
    );
  return owner;
}

/** Names of the groups of everybody whom one of the rules matches. An expression names no group. */
const groupsOf = (
  { name }: Pick<IssuerSettings, 'name'>,
  rules: readonly IdentityRule[],
): readonly string[] => rules.flatMap((rule) => ('when' in rule ? [] : [`${name}:${rule.value}`]));

/** Every group that the settings know. */
export const groupsIn = (issuers: readonly IssuerSettings[]): readonly string[] => [
  ...new Set(issuers.flatMap((issuer) => groupsOf(issuer, issuer.rules))),
];

const ranks = ['viewer', 'user', 'admin'] as const;
const maxName = 200;

/**
 * Rights of a person with these claims: the highest role of all rules that match, and the templates
 * of all of these rules if each one names some. Throws `IdentityRefused` if no rule matches. Calls
 * `failed` for each rule whose expression gives no answer.
 */
export function identityOf(
  claims: Claims,
  settings: IssuerSettings,
  issuers: readonly string[],
  failed: (failure: RuleFailure) => void = () => undefined,
): Identity {
  const { name: issuer, nameClaim, recheckSeconds } = settings;
  const matching = matchingRules(claims, settings, failed);
  const name = plainText(textOf(claimAt(claims, nameClaim)) ?? claims.sub, maxName);
  const role = ranks.findLast((rank) => matching.some((rule) => rule.role === rank));
  if (role === undefined)
    throw new IdentityRefused(
      `You are signed in there as ${name}, and no rule of this service gives your account a role. Ask the people who run it.`,
    );
  // A viewer starts nothing, so a rule for viewers neither adds nor opens templates.
  const starting = matching.filter((rule) => rule.role !== 'viewer');
  const templates =
    role === 'viewer' || starting.some((rule) => rule.templates === undefined)
      ? undefined
      : [...new Set(starting.flatMap((rule) => rule.templates ?? []))].sort();
  return {
    owner: ownerOf(claims, settings, issuers),
    role: role === 'admin' ? 'admin' : 'user',
    ...(role === 'viewer' ? { scopes: ['read'] } : {}),
    ...(templates === undefined ? {} : { templates }),
    person: {
      issuer,
      subject: claims.sub,
      name,
      groups: [...new Set(groupsOf(settings, matching))].sort(),
      recheckSeconds,
    },
  };
}
