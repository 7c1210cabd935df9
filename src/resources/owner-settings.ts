import { createHash } from 'node:crypto';
import { z } from 'zod';
import { mcpServerRules } from './acp-settings.ts';
import { column, resourceOf, type CustomObject, type CustomResourceDefinition } from './group.ts';
import {
  described,
  immutable,
  listMap,
  optional,
  ownerName,
  text,
  timestamp,
  validations,
} from './schema.ts';

/** Maximum secrets of one owner. */
export const maxSecrets = 64;
/** Maximum MCP servers of one owner. */
export const maxMcpServers = 16;
/** Maximum UTF-8 bytes of a secret, and of the JSON of an MCP server's headers or environment. */
export const maxSecretBytes = 16 * 1024;
/** Maximum characters of an encrypted text: a prefix, and the base64url of ciphertext and tag. */
export const maxSealedLength = 22 * 1024;
export const maxDescriptionLength = 500;
/** Maximum characters of all encrypted texts of one owner, which the gateway enforces. */
export const maxSealedTotal = 256 * 1024;

/** Names of secrets are names of environment variables. */
export const secretNamePattern = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
export const secretName = () => z.string().regex(secretNamePattern);

/** A text that the gateway has encrypted with a master key. */
export const sealedText = () => z.string().min(1).max(maxSealedLength);

/** A name or an address in a git commit, without line breaks. */
const commitText = () =>
  z
    .string()
    .min(1)
    .max(128)
    .regex(/^[^<>\r\n]+$/);

const secretSchema = z.object({
  name: described(secretName(), 'Name of the secret, also of its environment variable.'),
  description: optional(
    text(maxDescriptionLength),
    'Purpose of the secret, for people and agents.',
  ),
  sealed: described(
    sealedText(),
    'Value, which the gateway has sealed for this owner and this name under a master key.',
  ),
  updatedTime: described(timestamp(), 'Time at which the gateway stored the value.'),
});

const mcpServerSchema = z
  .object({
    name: described(z.string().min(1).max(64), 'Name of the server, which the agent shows.'),
    type: optional(z.enum(['http', 'sse']), 'Transport of the server at url. Absent: http.'),
    url: optional(
      text(1024),
      'Address of a server that runs elsewhere, without a user. Exactly one of url and command is given.',
    ),
    command: optional(
      z.string().min(1).max(1024),
      'Program of a server that the agent starts in the sandbox. Exactly one of url and command is given.',
    ),
    args: optional(z.array(text(1024)).max(32), 'Arguments of command.'),
    sealed: optional(
      sealedText(),
      'JSON object of the headers for url, or of the environment of command, sealed like the value of a secret.',
    ),
  })
  .meta(validations(...mcpServerRules));

export const ownerSettingsSpecSchema = z
  .object({
    owner: described(
      ownerName(),
      'Owner of the settings. The name of the object follows from the owner; an object with another name counts for nothing.',
    ),
    secrets: optional(
      z.array(secretSchema).max(maxSecrets).meta(listMap('name')),
      'Secrets that agents of the owner may use.',
    ),
    git: optional(
      z.object({
        name: described(commitText(), 'Name of the author of commits.'),
        email: described(commitText(), 'Email address of the author of commits.'),
        coAuthor: optional(
          z.boolean(),
          'False: commits do not name the agent as their co-author. Absent: they do.',
        ),
      }),
      'Author of the commits that agents of the owner make. Absent: the choice of the agent.',
    ),
    model: optional(
      text(256),
      'Name of the model of new conversations that name none. Absent: the model of the template.',
    ),
    mcpServers: optional(
      z.array(mcpServerSchema).max(maxMcpServers).meta(listMap('name')),
      'Servers of the Model Context Protocol for agents of the owner.',
    ),
  })
  .meta(validations(...immutable({ required: ['owner'] })));

export const ownerSettingsStatusSchema = z.object({});

export type OwnerSettingsSpec = z.output<typeof ownerSettingsSpecSchema>;
export type OwnerSecret = z.output<typeof secretSchema>;
export type OwnerMcpServer = z.output<typeof mcpServerSchema>;
export type OwnerSettings = CustomObject<
  OwnerSettingsSpec,
  z.output<typeof ownerSettingsStatusSchema>
>;

export const ownerSettingsDefinition: CustomResourceDefinition = {
  kind: 'OwnerSettings',
  plural: 'ownersettings',
  shortNames: ['os'],
  description: 'Settings and sealed secrets of an owner. The gateway writes them.',
  spec: ownerSettingsSpecSchema,
  status: ownerSettingsStatusSchema,
  printerColumns: [
    column('Owner', '.spec.owner', 'Owner of the settings.'),
    column('Model', '.spec.model', 'Model of new conversations that name none.'),
  ],
  selectableFields: ['.spec.owner'],
};

export const ownerSettings = resourceOf<OwnerSettings>(ownerSettingsDefinition);

const digestLength = 40;

export const settingsNameOf = (owner: string): string =>
  `owner-${createHash('sha256').update(owner).digest('hex').slice(0, digestLength)}`;

/**
 * The settings of an owner in an object; undefined if its name is not `settingsNameOf(owner)`.
 * Otherwise a client that may write such objects could add a second object for an owner.
 */
export const settingsOf = (
  owner: string,
  object: Pick<OwnerSettings, 'metadata' | 'spec'> | undefined,
): OwnerSettingsSpec | undefined =>
  object?.spec.owner === owner &&
  object.metadata.name === settingsNameOf(owner) &&
  object.metadata.deletionTimestamp === undefined
    ? object.spec
    : undefined;
