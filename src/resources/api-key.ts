import { z } from 'zod';
import {
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import {
  described,
  immutable,
  objectName,
  optional,
  ownerName,
  text,
  timestamp,
  validations,
} from './schema.ts';
import { maxGroupLength } from './share.ts';

/** Maximum groups of a person: an identity provider has at most 100 rules. */
const maxGroups = 100;

export const apiKeyRoles = ['user', 'admin'] as const;

/** Kinds of operations that a key may open; `scopeOf` in src/gateway/http/route.ts assigns them. */
export const apiKeyScopes = ['read', 'start', 'manage', 'secrets', 'admin'] as const;
export type ApiKeyScope = (typeof apiKeyScopes)[number];

/** Uses of an ApiKey that belongs to the sign-in of a person in a browser. */
export const signInUses = ['Link', 'Session', 'ServiceAccount', 'Device'] as const;

export const apiKeySpecSchema = z
  .object({
    owner: described(ownerName(), 'Owner whose conversations the key opens.'),
    role: described(
      z.enum(apiKeyRoles).default('user'),
      'user, or admin: also lists and revokes the keys of other owners.',
    ),
    sha256: described(
      z.string().regex(/^[0-9a-f]{64}$/),
      'SHA-256 of the key, in hex. The key itself is stored nowhere.',
    ),
    description: optional(text(200), 'Purpose of the key, for people.'),
    scopes: optional(
      z.array(z.enum(apiKeyScopes)).min(1).max(apiKeyScopes.length),
      'What the key opens: read, start (conversations and messages), manage (all other changes, and the agents), secrets, admin (what the role admin adds). A key opens no more than the keys that it depends on. Absent: all.',
    ),
    notBefore: optional(
      timestamp(),
      'Time before which the key is invalid. Absent: valid at once.',
    ),
    expirationTime: optional(timestamp(), 'Time from which the key is invalid. Absent: never.'),
    disabled: optional(z.boolean(), 'True: the key is invalid.'),
    issuedBy: optional(
      z.object({
        name: described(objectName(), 'Name of the ApiKey.'),
        uid: described(z.string().min(1).max(64), 'UID of the ApiKey.'),
      }),
      'Key that created this one over REST. This key is valid only as long as that one is. Absent: created on the command line or with kubectl.',
    ),
    templates: optional(
      z.array(objectName()).min(1).max(100),
      'Templates that the key may start. Absent: all.',
    ),
    person: optional(
      z.object({
        issuer: described(
          text(32),
          'Name of the identity provider in the settings of the gateway.',
        ),
        subject: described(text(255), 'Identifier of the person at the provider.'),
        name: described(text(200), 'Name of the person, for people.'),
        groups: optional(
          z.array(z.string().min(1).max(maxGroupLength)).max(maxGroups),
          'Groups of the person, as ISSUER:VALUE: the values of the rules that have matched. Conversations may be shared with them. Absent: none is known.',
        ),
        recheckSeconds: described(
          z.int().min(60).max(86_400),
          'Seconds after which the provider has to confirm the person again.',
        ),
      }),
      'Person whom an identity provider has signed in. The session is valid while the provider confirms the person.',
    ),
    device: optional(
      z.object({
        userCodeHash: described(
          z.string().regex(/^[0-9a-f]{64}$/),
          'Hash, under a master key, of the code that the program shows.',
        ),
        program: described(text(120), 'Name that the program gives itself.'),
        address: described(text(64), 'Address from which the program asks.'),
      }),
      'The program that waits for the answer of a person.',
    ),
    serviceAccount: optional(
      text(317),
      'Service account of the cluster that uses the key, as namespace/name.',
    ),
    signIn: optional(
      z.enum(signInUses),
      'Link: the key signs a person in once, at /login, and opens nothing else. Session: the session of a person who has signed in; the key itself is shown nowhere. ServiceAccount: the key of a service account of the cluster for a day. Device: the login of a program that waits for a person; it opens nothing. Absent: the key is for requests.',
    ),
  })
  .meta(
    validations(
      ...immutable({
        required: ['owner', 'role', 'sha256'],
        optional: [
          ...['scopes', 'templates', 'person', 'device'],
          ...['serviceAccount', 'issuedBy', 'signIn'],
        ],
      }),
    ),
  );

export const apiKeyStatusSchema = z.object({
  lastUsedTime: optional(
    timestamp(),
    'Time at which the key was last used. Written by the gateway, at most once an hour.',
  ),
  deviceAnswer: optional(
    z.enum(['Granted', 'Refused']),
    'Answer of a person to the program that waits.',
  ),
  confirmedTime: optional(
    timestamp(),
    'Time at which the identity provider last confirmed the person. Absent: at the creation.',
  ),
});

export type ApiKeySpec = z.output<typeof apiKeySpecSchema>;
export type ApiKey = CustomObject<ApiKeySpec, z.output<typeof apiKeyStatusSchema>>;

export const apiKeyDefinition: CustomResourceDefinition = {
  kind: 'ApiKey',
  plural: 'apikeys',
  shortNames: ['ak'],
  description: 'A key for the REST service.',
  spec: apiKeySpecSchema,
  status: apiKeyStatusSchema,
  printerColumns: [
    column('Owner', '.spec.owner', 'Owner of the key.'),
    column('Role', '.spec.role', 'user or admin.'),
    wideColumn('Scopes', '.spec.scopes', 'What the key opens; empty: all.'),
    column('Description', '.spec.description', 'Purpose of the key.'),
    wideColumn('Begins', '.spec.notBefore', 'Time before which the key is invalid.'),
    column('Expires', '.spec.expirationTime', 'Time from which the key is invalid.'),
    wideColumn('Disabled', '.spec.disabled', 'Whether the key is disabled.', 'boolean'),
    wideColumn('Issued-By', '.spec.issuedBy.name', 'Key that created this one.'),
  ],
  selectableFields: ['.spec.owner'],
};

export const apiKeys = resourceOf<ApiKey>(apiKeyDefinition);
