import { parseArgs } from 'node:util';
import * as z from 'zod/mini';
import { acpVendors, type AcpVendor } from './acp/vendors.ts';
import { parseJson } from './json.ts';
import { mcpServerList, type McpServer } from './mcp-servers.ts';

export interface Settings {
  readonly host: string;
  readonly port: number;
  /** Waits for keys from `POST /api/init`. */
  readonly deferredInit: boolean;
  readonly sessionKeys: readonly string[];
  /** Bootstrap key in deferred mode, otherwise the key that encrypts secrets on the disk. */
  readonly secretKey: string | undefined;
  readonly conversationsPath: string;
  readonly maxConcurrentRuns: number;
  /** Environment for commands and for the default settings of the model. */
  readonly env: Readonly<Record<string, string>>;
}

/** A setting is invalid; the message names the setting and the reason. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

export function loadSettings(args: readonly string[], env: NodeJS.ProcessEnv): Settings {
  const { values } = parseArgs({
    args: [...args],
    options: { host: { type: 'string' }, port: { type: 'string' } },
  });
  const deferredInit = booleanOf('OH_DEFERRED_INIT', env['OH_DEFERRED_INIT']);
  const sessionKeys = Object.entries(env)
    .filter(
      ([name, value]) =>
        (/^OH_SESSION_API_KEYS_\d+$/.test(name) || name === 'SESSION_API_KEY') &&
        value !== undefined &&
        value !== '',
    )
    .map(([, value]) => value ?? '');
  if (deferredInit && (env['OH_SECRET_KEY'] ?? '') === '') {
    throw new SettingsError(
      'OH_SECRET_KEY is required with OH_DEFERRED_INIT, as the key for POST /api/init',
    );
  }
  if (!deferredInit && sessionKeys.length === 0) {
    throw new SettingsError(
      'no session key: set OH_SESSION_API_KEYS_0, or OH_DEFERRED_INIT=true and OH_SECRET_KEY',
    );
  }
  // A wrong setting ends the start rather than the first run.
  acpSettingsOf(env);
  return {
    host: values.host ?? env['HOST'] ?? '127.0.0.1',
    port: wholeNumber('port', values.port ?? env['PORT'] ?? '8000', 0, 65_535),
    deferredInit,
    sessionKeys,
    secretKey: env['OH_SECRET_KEY'] === '' ? undefined : env['OH_SECRET_KEY'],
    conversationsPath: env['OH_CONVERSATIONS_PATH'] ?? 'workspace/conversations',
    maxConcurrentRuns: wholeNumber(
      'OH_MAX_CONCURRENT_RUNS',
      env['OH_MAX_CONCURRENT_RUNS'] ?? '10',
      1,
      1000,
    ),
    env: Object.fromEntries(
      Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
    ),
  };
}

/** Returns the environment of commands, without the settings and keys of the server. */
export function commandEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  const kept = Object.entries(env).filter(
    ([name]) =>
      !/^(OH|ACP)_/.test(name) && name !== 'LLM_API_KEY' && !/SESSION_(API_)?KEY/.test(name),
  );
  return { ...Object.fromEntries(kept), AI_AGENT: 'reference-agent' };
}

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

function booleanOf(name: string, value = 'false'): boolean {
  if (['true', '1'].includes(value.toLowerCase())) return true;
  if (['false', '0', ''].includes(value.toLowerCase())) return false;
  throw new SettingsError(`${name} must be true or false`);
}

function wholeNumber(name: string, value: string, min: number, max: number): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < min || number > max) {
    throw new SettingsError(`${name} must be a whole number from ${min} to ${max}`);
  }
  return number;
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
