import { z } from 'zod';
import { mcpValuesOf, type Sealing } from '../../agent/sealing.ts';
import {
  maxMcpServers,
  maxSecretBytes,
  type OwnerMcpServer,
  type OwnerSettingsSpec,
} from '../../resources/owner-settings.ts';
import { invalidField } from '../errors/validation.ts';
import { unreadable } from '../lookup/secret-reader.ts';
import { label, unused } from '../http/fields.ts';
import { refuseTooLarge } from './secrets.ts';

/** Text that replaces each secret value in responses; the published clients recognize it. */
const hiddenValue = '**********';

const hiddenValues = z
  .record(z.string(), z.literal(hiddenValue))
  .nullable()
  .describe('The names, with asterisks for each value; null: none, or none that can be read.');

export const mcpConfigSchema = z.record(
  z.string(),
  z.union([
    z.object({ transport: z.enum(['http', 'sse']), url: z.string(), headers: hiddenValues }),
    z.object({
      transport: z.literal('stdio'),
      command: z.string(),
      args: z.array(z.string()),
      env: hiddenValues,
    }),
  ]),
);

/** The MCP servers of an owner, without the values of headers and environment variables. */
export const presentMcpServers = (
  servers: readonly OwnerMcpServer[],
  owner: string,
  sealing: Sealing,
): z.output<typeof mcpConfigSchema> =>
  Object.fromEntries(
    servers.map((server) => {
      const names = Object.keys(mcpValuesOf(server, owner, sealing) ?? {});
      const hidden =
        names.length === 0
          ? null
          : Object.fromEntries(names.map((name) => [name, hiddenValue] as const));
      const { name, type = 'http', url, command = '', args = [] } = server;
      return [
        name,
        url === undefined
          ? { transport: 'stdio' as const, command, args: [...args], env: hidden }
          : { transport: type, url, headers: hidden },
      ];
    }),
  );

/** A name or an email address in a git commit, on one line; null or empty for none. */
const commitText = () =>
  label(128)
    .refine((text) => /^[^<>\r\n\t]*$/.test(text), 'must not have <, > or line breaks')
    .transform((text) => text.trim())
    .nullish();

/** The URL of an MCP server, by the same rule as in the CRD. */
const serverUrl =
  /^https?:\/\/(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?][A-Za-z0-9._~:/?&=%@+,;!*()-]*)?$/;
const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const maxValues = 64;

const values = (name: RegExp) =>
  z
    .record(
      z.string().regex(name),
      z
        .string()
        .refine((text) => text.isWellFormed(), 'must not have halves of surrogate pairs')
        .refine((text) => !/[\0\r\n]/.test(text), 'must be one line without NUL characters')
        .nullable(),
    )
    .refine((all) => Object.keys(all).length <= maxValues, `must have at most ${maxValues} values`)
    .nullish()
    .describe('By name; null removes a value, asterisks keep it. No answer shows a value.');

const transports = ['stdio', 'http', 'streamable-http', 'shttp', 'sse'] as const;

const serverPatch = z.strictObject({
  transport: z.enum(transports).nullish(),
  url: z
    .string()
    .max(1024)
    .regex(serverUrl, 'must be an http or https URL without user, fragment and white space')
    .nullish(),
  headers: values(headerName),
  command: label(1024).nullish(),
  args: z.array(label(1024)).max(32).nullish(),
  env: values(variableName),
  auth: z
    .strictObject({
      strategy: z.literal('none', 'is not supported: send the credential as a header'),
    })
    .nullish(),
  enabled: z
    .literal(true, 'must be true: a server that is not to be used has to be deleted')
    .nullish(),
  description: unused('servers have names alone.'),
  icon: unused('servers have names alone.'),
  cwd: unused('a program runs in the folder of its conversation.'),
  timeout: unused('the time limits are those of the agent.'),
  sse_read_timeout: unused('the time limits are those of the agent.'),
  keep_alive: unused('the connections are those of the agent.'),
});
type ServerPatch = z.output<typeof serverPatch>;

const mcpDiff = z
  .record(label(64).min(1, 'must not be empty'), serverPatch.nullable())
  .refine(
    (servers) => Object.keys(servers).length <= 2 * maxMcpServers,
    `must have at most ${maxMcpServers} servers`,
  )
  .nullish()
  .describe('Servers to add or change, by name; null deletes a server, and in its place all.');

const model = label(256).nullish();

/** Preferences that the official web UI sends. They are ignored, and the UI uses its defaults. */
const preferences = Object.fromEntries(
  [
    'language',
    'user_consents_to_analytics',
    'enable_sound_notifications',
    'title_llm_profile',
    'disabled_skills',
    'enabled_skills',
  ].map((name) => [name, unused('preferences of the web UI are not kept.')]),
);

/**
 * A change of the settings. Absent fields stay unchanged. `agent_settings_diff` accepts unknown
 * fields, because clients send all fields of their version of the agent.
 */
export const settingsRequestSchema = z
  .strictObject({
    llm_model: model.describe('Model of new conversations that name none; null: the default.'),
    agent_settings_diff: z
      .looseObject({ llm: z.looseObject({ model }).nullish(), mcp_config: mcpDiff })
      .nullish()
      .describe('Settings of an agent of OpenHands: llm.model and mcp_config are read, no others.'),
    conversation_settings_diff: unused('they belong to the sandbox spec and to each start.'),
    ...preferences,
    mcp_config: mcpDiff,
    git_user_name: commitText().describe('Author of commits; null or empty: the choice of agents.'),
    git_user_email: commitText(),
    git_co_author: z
      .boolean()
      .nullish()
      .describe('Whether commits name the agent as co-author; beside a git_user_name alone.'),
  })
  .transform(({ agent_settings_diff: agent, ...flat }) => ({
    gitName: flat.git_user_name,
    gitEmail: flat.git_user_email,
    gitCoAuthor: flat.git_co_author ?? undefined,
    ...(flat.llm_model === undefined
      ? { model: agent?.llm?.model, modelPath: 'body.agent_settings_diff.llm.model' }
      : { model: flat.llm_model, modelPath: 'body.llm_model' }),
    ...(flat.mcp_config === undefined
      ? { mcp: agent?.mcp_config, mcpPath: 'body.agent_settings_diff.mcp_config' }
      : { mcp: flat.mcp_config, mcpPath: 'body.mcp_config' }),
  }));
export type SettingsRequest = z.output<typeof settingsRequestSchema>;

/** The settings after a request. Throws 422 with the name of the field for an invalid value. */
export function changedSettings(
  stored: OwnerSettingsSpec,
  request: SettingsRequest,
  sealing: Sealing,
): OwnerSettingsSpec {
  const { model: storedModel, git: _git, mcpServers: _servers, ...rest } = stored;
  const chosen = request.model === undefined ? storedModel : request.model;
  const git = gitAfter(stored, request);
  const servers = serversAfter(stored, request, sealing);
  return refuseTooLarge(
    {
      ...rest,
      ...(chosen === undefined || chosen === null || chosen === '' ? {} : { model: chosen }),
      ...(git === undefined ? {} : { git }),
      ...(servers.length === 0 ? {} : { mcpServers: [...servers] }),
    },
    request.mcpPath,
  );
}

function gitAfter(
  { git }: OwnerSettingsSpec,
  { gitName, gitEmail, gitCoAuthor = git?.coAuthor }: SettingsRequest,
): OwnerSettingsSpec['git'] {
  const name = (gitName === undefined ? git?.name : gitName) ?? '';
  const email = (gitEmail === undefined ? git?.email : gitEmail) ?? '';
  if (name === '' && email === '') return undefined;
  if (name === '') throw invalidField('body.git_user_name', 'is required beside git_user_email');
  if (email === '') throw invalidField('body.git_user_email', 'is required beside git_user_name');
  return { name, email, ...(gitCoAuthor === undefined ? {} : { coAuthor: gitCoAuthor }) };
}

function serversAfter(
  { owner, mcpServers = [] }: OwnerSettingsSpec,
  { mcp, mcpPath }: SettingsRequest,
  sealing: Sealing,
): readonly OwnerMcpServer[] {
  if (mcp === undefined) return mcpServers;
  if (mcp === null) return [];
  const unchanged = mcpServers.filter(({ name }) => !Object.hasOwn(mcp, name));
  const changed = Object.entries(mcp).flatMap(([name, patch]) => {
    if (patch === null) return [];
    const known = mcpServers.find((server) => server.name === name);
    return [serverAfter({ name, known, patch, owner, sealing, path: `${mcpPath}.${name}` })];
  });
  const servers = [...unchanged, ...changed];
  if (servers.length > maxMcpServers)
    throw invalidField(mcpPath, `must leave at most ${maxMcpServers} servers`);
  return servers;
}

interface ServerChange {
  readonly name: string;
  readonly known: OwnerMcpServer | undefined;
  readonly patch: ServerPatch;
  readonly owner: string;
  readonly sealing: Sealing;
  readonly path: string;
}

function serverAfter({ name, known, patch, owner, sealing, path }: ServerChange): OwnerMcpServer {
  const url = given(patch.url, known?.url);
  const command = given(patch.command, known?.command);
  // A request with a `url` or a `command` may change the transport of a server.
  const isRemote = typeof patch.url === 'string' || (url !== undefined && !patch.command);
  if (isRemote ? url === undefined : command === undefined)
    throw invalidField(path, 'must have a url or a command');
  if (typeof patch.url === 'string' && typeof patch.command === 'string')
    throw invalidField(path, 'must have either a url or a command');
  const args = [...(given(patch.args, known?.args) ?? [])];
  const placeAfter = isRemote ? { url } : { command, args };
  const isSame = known !== undefined && placeOf(known) === placeOf(placeAfter);
  const field = isRemote ? 'headers' : 'env';
  const sealed = sealedAfter(
    { name, owner, sealing, patch, known: isSame ? known : undefined, path },
    field,
  );
  const type = patch.transport === 'sse' ? 'sse' : 'http';
  const place = isRemote
    ? { url: url ?? '', type: patch.transport == null ? (known?.type ?? 'http') : type }
    : { command: command ?? '', args };
  return { name, ...place, ...(sealed === undefined ? {} : { sealed }) };
}

/**
 * The destination of a server's secret values: the origin of its URL, or its program with the
 * arguments, which may name a package. A request can not read the values, so it must not redirect
 * them to another destination.
 */
const placeOf = ({ url, command, args = [] }: Partial<OwnerMcpServer>): string =>
  url === undefined
    ? `program ${JSON.stringify([command, ...args])}`
    : `origin ${URL.parse(url)?.origin ?? url}`;

/** The value of a field after a merge patch: undefined keeps the value, and null removes it. */
const given = <T>(wanted: T | null | undefined, known: T | undefined): T | undefined =>
  wanted === undefined ? known : (wanted ?? undefined);

function sealedAfter(
  { name, known, patch, owner, sealing, path }: ServerChange,
  field: 'headers' | 'env',
): string | undefined {
  const wanted = patch[field];
  if (wanted === undefined) return known?.sealed;
  if (wanted === null) return undefined;
  const before = known === undefined ? {} : mcpValuesOf(known, owner, sealing);
  if (before === undefined) throw unreadable(name);
  const after = new Map(Object.entries(before));
  for (const [key, value] of Object.entries(wanted)) {
    if (value === null) after.delete(key);
    else if (value !== hiddenValue) after.set(key, value);
    else if (!after.has(key))
      throw invalidField(
        `${path}.${field}.${key}`,
        'must be a value, because there is none yet for this origin or program',
      );
  }
  if (after.size === 0) return undefined;
  const text = JSON.stringify(Object.fromEntries(after));
  if (after.size > maxValues || Buffer.byteLength(text) > maxSecretBytes)
    throw invalidField(
      `${path}.${field}`,
      `must leave at most ${maxValues} values with ${maxSecretBytes} bytes as JSON`,
    );
  return sealing.seal(text, { scope: 'mcp', owner, name });
}
