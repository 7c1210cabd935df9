import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { parseClaimExpression } from './claim-expression.ts';
import { ConfigError, flag } from './environment.ts';
import { apiKeyRoles, apiKeyScopes } from '../resources/api-key.ts';
import { objectName, ownerName } from '../resources/schema.ts';

/**
 * A claim of an ID token: its name, or the names of nested objects separated by dots
 * (`realm_access.roles`). A name that has dots itself is the only item of a list.
 */
const claimPath = z
  .union([z.string().min(1).max(200), z.array(z.string().min(1).max(200)).min(1).max(8)])
  .transform((path) => (typeof path === 'string' ? path.split('.') : path));

/** http only on this machine, for tests: a token could be read and replaced on its way. */
const issuerUrl = z.string().refine((text) => {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, search, hash } = new URL(text);
  const isLocal = hostname === '127.0.0.1' || hostname === 'localhost';
  return (
    search === '' && hash === '' && (protocol === 'https:' || (isLocal && protocol === 'http:'))
  );
}, 'must be an https URL without a query');

const claimExpression = z
  .string()
  .min(1)
  .max(2_000)
  .transform((text, context) => {
    try {
      return parseClaimExpression(text);
    } catch (error) {
      context.addIssue(`is no condition in CEL: ${error instanceof Error ? error.message : ''}`);
      return z.NEVER;
    }
  });

const ruleSchema = z
  .strictObject({
    claim: claimPath.optional(),
    /** The whole value of the claim, or one item of its list. */
    value: z.string().min(1).max(500).optional(),
    /** In place of `claim` and `value`: a condition in CEL over `claims`. */
    when: claimExpression.optional(),
    role: z.enum(['admin', 'user', 'viewer']),
    /** Templates that the person may start; absent: all. */
    templates: z.array(objectName()).min(1).max(100).optional(),
  })
  .transform(({ claim, value, when, ...rights }, context) => {
    if (when !== undefined && claim === undefined && value === undefined)
      return { when, ...rights };
    if (when === undefined && claim !== undefined && value !== undefined)
      return { claim, value, ...rights };
    context.addIssue('must have either claim and value, or when');
    return z.NEVER;
  });

const issuerSchema = z.strictObject({
  /** Names the issuer in addresses, and in owners that its people get by default. */
  name: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, 'must be a DNS label of at most 32 characters'),
  /** Name on the button of the page; by default `name`. */
  title: z.string().min(1).max(60).optional(),
  issuer: issuerUrl,
  clientId: z.string().min(1).max(500),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))
    .refine((scopes) => scopes.includes('openid'), 'must contain openid')
    .default(['openid', 'profile', 'email']),
  /** Claim with the owner; absent: derived from the issuer's `name` and the subject. */
  ownerClaim: claimPath.optional(),
  /** Claim with the name that people see. */
  nameClaim: claimPath.default(['name']),
  rules: z.array(ruleSchema).min(1).max(100),
  /** Whether the claim `email` counts without `email_verified: true`. */
  trustsEmail: z.boolean().default(false),
  /** Time after which a session asks the issuer again. */
  recheckSeconds: z.int().min(60).max(86_400).default(900),
  /**
   * `prompt`: by the browser, with a sign-in without a question. `introspection`: the gateway asks
   * about the access token, as long as that lives.
   */
  recheck: z.enum(['prompt', 'introspection']).default('prompt'),
});

const serviceAccountsSchema = z.strictObject({
  /** Audience that a token has to name, so that no token for another service counts. */
  audience: z.string().min(1).max(200).default('conversation-operator'),
  /** Whether the API server is asked about each token, so that one of a deleted Pod is refused. */
  tokenReview: z.boolean().default(false),
  rules: z
    .array(
      z.strictObject({
        namespace: z.string().min(1).max(63),
        name: z.string().min(1).max(253),
        owner: ownerName(),
        role: z.enum(apiKeyRoles).default('user'),
        scopes: z.array(z.enum(apiKeyScopes)).min(1).optional(),
        templates: z.array(objectName()).min(1).max(100).optional(),
      }),
    )
    .min(1)
    .max(1_000),
});

const fileSchema = z.strictObject({
  /** Service accounts of the cluster that use the service with their tokens. */
  serviceAccounts: serviceAccountsSchema.optional(),
  issuers: z
    .array(issuerSchema)
    .max(20)
    .default([])
    .refine(
      (issuers) => new Set(issuers.map(({ name }) => name)).size === issuers.length,
      'must have different names',
    ),
});

export const signInSettings = {
  /** YAML file with the identity providers that people may sign in at; absent: none. */
  SIGN_IN_FILE: z.string().min(1).optional(),
  /** Folder with the client secrets: a file for each issuer, with its `name`. */
  SIGN_IN_SECRETS_DIR: z.string().min(1).optional(),
  /**
   * Whether the API keys that a person has made are valid only while the session that made them is
   * confirmed by the identity provider.
   */
  SIGN_IN_KEYS_REQUIRE_ACTIVE_PERSON: flag(false),
};

type SignInConfig = z.output<z.ZodObject<typeof signInSettings>>;

/** Throws a ConfigError that names the file and the field. No error contains a secret. */
export function readSignIn({ SIGN_IN_FILE: file, SIGN_IN_SECRETS_DIR: folder }: SignInConfig) {
  if (file === undefined) return { issuers: [], serviceAccounts: undefined };
  const read = (path: string, setting: string): string => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      throw new ConfigError(`${setting}: ${path} can't be read`);
    }
  };
  let content: unknown;
  try {
    content = parse(read(file, 'SIGN_IN_FILE'), { maxAliasCount: 0 });
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`SIGN_IN_FILE: ${file} is not YAML`);
  }
  const { data, error } = fileSchema.safeParse(content);
  if (data === undefined)
    throw new ConfigError(
      error.issues
        .map(({ path, message }) => `SIGN_IN_FILE: ${path.join('.') || file}: ${message}`)
        .join('\n'),
    );
  const issuers = data.issuers.map((issuer, index) => {
    const clientSecret =
      folder === undefined ? '' : read(join(folder, issuer.name), 'SIGN_IN_SECRETS_DIR').trim();
    if (clientSecret !== '') return { ...issuer, clientSecret };
    if (issuer.recheck === 'introspection')
      throw new ConfigError(
        `SIGN_IN_FILE: issuers.${index}.recheck: introspection needs a client secret`,
      );
    return issuer;
  });
  return { issuers, serviceAccounts: data.serviceAccounts };
}
