import { parseArgs } from 'node:util';

export interface Settings {
  readonly host: string;
  readonly port: number;
  /** Whether the server waits for its keys from `POST /api/init`. */
  readonly deferredInit: boolean;
  readonly sessionKeys: readonly string[];
  /** Key for `POST /api/init` if `deferredInit`, else the key that encrypts secrets on the disk. */
  readonly secretKey: string | undefined;
  readonly conversationsPath: string;
  readonly maxConcurrentRuns: number;
  /** All variables of the environment, including the default settings of the model (`LLM_…`). */
  readonly env: Readonly<Record<string, string>>;
}

/** An invalid setting. The message names the setting and the reason. */
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

/** Parses a setting that is true or false. Throws SettingsError. */
export function booleanOf(name: string, value = 'false'): boolean {
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
