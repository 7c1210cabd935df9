import * as z from 'zod/mini';
import { parseJson } from '../json.ts';
import { mcpServerList, type McpServer } from '../mcp-servers.ts';
import { booleanOf, SettingsError } from '../settings.ts';
import { acpVendors, type AcpVendor } from './vendors.ts';

/** Settings of an agent that speaks the Agent Client Protocol. */
export interface AcpSettings {
  readonly vendor: AcpVendor;
  /** Offers options that hold for later calls as well. */
  readonly allowAlways: boolean;
  /** Passed to each session of the agent. */
  readonly mcpServers: readonly McpServer[];
  /** Mode of a session that asks before its tools. Absent: the one of the vendor. */
  readonly mode: string | undefined;
  /** Environment of the agent's process in addition, which no command has. */
  readonly env: Readonly<Record<string, string>>;
}

/** Returns undefined when the environment names no such agent. Throws SettingsError. */
export function acpSettingsOf(
  env: Readonly<Record<string, string | undefined>>,
): AcpSettings | undefined {
  const vendor = acpVendorOf(env);
  if (vendor === undefined) return undefined;
  const mode = env['ACP_MODE'] ?? '';
  return {
    vendor,
    allowAlways: booleanOf('ACP_ALLOW_ALWAYS', env['ACP_ALLOW_ALWAYS']),
    mcpServers: jsonOf('ACP_MCP_SERVERS', env, mcpServerList, 'a JSON list of MCP servers') ?? [],
    mode: mode === '' ? undefined : mode,
    env: jsonOf('ACP_ENV', env, environment, 'a JSON object of texts') ?? {},
  };
}

/** Returns the value of a setting in JSON; undefined when the setting is absent. */
function jsonOf<T>(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
  type: z.ZodMiniType<T>,
  words: string,
): T | undefined {
  const text = env[name] ?? '';
  if (text === '') return undefined;
  const parsed = type.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  // The message omits the value, which may contain secrets.
  const [issue] = parsed.error.issues;
  const place = issue?.path.join('.') ?? '';
  throw new SettingsError(
    `${name} must be ${words}${place === '' ? '' : `; the value at ${place} is invalid`}`,
  );
}

/**
 * The agent that the environment names: `ACP_AGENT`, a name of the table, or `ACP_COMMAND`, the
 * command line of any other agent as a JSON list. Throws for a name that the table lacks.
 */
export function acpVendorOf(
  env: Readonly<Record<string, string | undefined>>,
): AcpVendor | undefined {
  const { ACP_AGENT: name = '', ACP_COMMAND: text = '' } = env;
  if (text !== '') {
    const command = commandLine.safeParse(parseJson(text));
    if (!command.success)
      throw new SettingsError('ACP_COMMAND must be a JSON list of texts, the program first');
    const [program = '', ...args] = command.data;
    return {
      ...{ package: '', version: '', license: '', command: [program, ...args], env: {} },
      continues: 'resume',
    };
  }
  if (name === '') return undefined;
  const vendor = Object.entries(acpVendors).find(([known]) => known === name)?.[1];
  if (vendor === undefined)
    throw new SettingsError(`ACP_AGENT must be one of ${Object.keys(acpVendors).join(', ')}`);
  return vendor;
}

const environment = z.record(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/)), z.string());

const commandLine = z.array(z.string()).check(z.minLength(1));
