import { z } from 'zod';
import { outwardSettings } from './outward.ts';

/** A setting that is not what it should be: one line for each, ready to be printed. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

interface Range {
  readonly from: number;
  readonly to: number;
  /** Default: a whole number. */
  readonly unit?: string;
  readonly fractions?: boolean;
  /** 0 is accepted below `from` as well. */
  readonly zeroIsNoLimit?: boolean;
}

/** A number within bounds, which its error names. */
export const numberFrom = ({
  from,
  to,
  unit = 'a whole number',
  fractions = false,
  zeroIsNoLimit = false,
}: Range) =>
  z.string().transform((text, context) => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    const isWithin =
      (value >= from && value <= to && (fractions || Number.isInteger(value))) ||
      (zeroIsNoLimit && value === 0);
    if (!isWithin)
      context.addIssue(
        `must be ${unit} from ${from} to ${to}${zeroIsNoLimit ? ', or 0 for no limit' : ''}`,
      );
    return value;
  });

/** A TCP port; 0 lets the system choose. */
export const port = () => numberFrom({ from: 0, to: 65_535 });

const daySeconds = 86_400;
/** A period without fractions of a millisecond, as timers have it. */
export const seconds = (to = daySeconds) =>
  numberFrom({ from: 0.001, to, unit: 'a number of seconds', fractions: true });

/** For `timeout` of a shell. */
const wholeSeconds = () =>
  numberFrom({ from: 1, to: daySeconds, unit: 'a whole number of seconds' });

const maxCount = 1_000_000_000;
/** A number of things that there may be at most. */
export const count = () => numberFrom({ from: 1, to: maxCount });
/** The same, or 0 for no limit. */
export const countOrNoLimit = (from = 1) => numberFrom({ from, to: maxCount, zeroIsNoLimit: true });

export const oneOf = <const T extends readonly [string, ...string[]]>(...texts: T) =>
  z.enum(texts, `must be ${texts.slice(0, -1).join(', ')} or ${texts.at(-1) ?? ''}`);

/** `true` and `false`, also `1` and `0`. */
export const flag = (fallback: boolean) =>
  oneOf('true', 'false', '1', '0')
    .transform((text) => text === 'true' || text === '1')
    .default(fallback);

/** Texts separated by commas; by default none. */
const separated = () =>
  z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== ''),
    );

/** Texts separated by commas, each of which is valid. */
export const listOf = (isValid: (text: string) => boolean, message: string) =>
  separated().pipe(z.array(z.string().refine(isValid, message)));

/** Some of these texts, separated by commas. */
export const someOf = <const T extends readonly [string, ...string[]]>(...texts: T) =>
  separated().pipe(z.array(oneOf(...texts)));

export const logging = {
  LOG_LEVEL: oneOf('error', 'warn', 'info', 'debug').default('info'),
  LOG_FORMAT: oneOf('json', 'pretty').optional(),
};

export const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });

/**
 * An origin for each port of each sandbox. Both are in the first label, so that one wildcard covers
 * them all.
 */
const sandboxUrl = z
  .string()
  .regex(
    /^https?:\/\/[a-z0-9-]*\{sandbox\}-{1,2}\{port\}[a-z0-9-]*(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:\d{1,5})?\/?$/,
    'must have the form https://{sandbox}-{port}.agents.example.com',
  );

/** A text of JSON, which further rules read. */
export const jsonText = (form: string) =>
  z.string().transform((text, context): unknown => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue(form);
      return z.NEVER;
    }
  });

/** A JSON object of provider names and URLs of one of the protocols. */
export const urlsByProvider = (fallback: string, url: z.ZodType<string>, example: string) => {
  const form = `must be a JSON object of provider names and base URLs, for example ${example}`;
  return jsonText(form)
    .prefault(fallback)
    .pipe(z.record(z.string(), url, form));
};

export const fileList = z
  .string('must name at least one file')
  .transform((text) => text.split(','));

/** Default data folder of `make run`. */
export const defaultDataDir = './.data';

/** Settings that every process which serves REST or runs controllers understands. */
export const shared = {
  ...logging,
  ...outwardSettings,
  PUBLIC_URL: httpUrl.optional(),
  SANDBOX_URL_TEMPLATE: sandboxUrl.optional(),
  GIT_HOSTS: urlsByProvider(
    '{"github":"https://github.com","gitlab":"https://gitlab.com","bitbucket":"https://bitbucket.org"}',
    z.url({ protocol: /^(https?|file)$/, error: 'must be an http, https or file URL' }),
    '{"github":"https://github.com"}',
  ),
  LEGACY_API: flag(true),
};

/** How long the clone of a repository may take, and so its transfer through the gateway. */
export const cloneTimeout = { CLONE_TIMEOUT_SECONDS: wholeSeconds().default(600) };

/** Settings of every process with the controllers. */
export const operating = {
  ...cloneTimeout,
  /**
   * How long a pause waits for the agent to stop its runs before its pod is deleted all the same.
   */
  PAUSE_TIMEOUT_SECONDS: seconds().default(15),
  /** How long a repository's set-up script may take. */
  SETUP_TIMEOUT_SECONDS: wholeSeconds().default(600),
  /** Maximum size of a repository on its sandbox's volume, with its history. */
  REPOSITORY_MAX_MIB: count().default(10_240),
  /**
   * A folder with a file for each API key of a model: NAME is everybody's, NAME.OWNER that of one
   * owner. By default there are none.
   */
  AGENT_CREDENTIALS_DIR: z.string().optional(),
};

/**
 * Settings whose values errors never repeat: those with a key, and with URLs in which one may be.
 */
const secrets: ReadonlySet<string> = new Set([
  'LLM_API_KEY',
  'LLM_BASE_URL',
  'GIT_HOSTS',
  'GIT_API_URLS',
  'GITHUB_APP_PRIVATE_KEY_FILE',
  'ARCHIVE_S3_ENDPOINT',
  ...['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'],
]);
const maxShownCharacters = 80;

/** The end of an error: what was given, where that can't be a secret. */
function notThis(name: string, given: unknown): string {
  if (typeof given !== 'string' || secrets.has(name) || given.includes('@')) return '';
  const shown =
    given.length > maxShownCharacters ? `${given.slice(0, maxShownCharacters)}…` : given;
  return `, not ${JSON.stringify(shown)}`;
}

/**
 * Reads settings from the environment. Empty counts as absent. Throws `ConfigError` that names
 * every variable that is wrong, with what is allowed and what was given.
 */
export function readEnvironment<S extends z.ZodType>(
  schema: S,
  environment: NodeJS.ProcessEnv,
): z.output<S> {
  const present = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== ''),
  );
  const result = schema.safeParse(present, { reportInput: true });
  if (result.success) return result.data;
  const lines = result.error.issues.map(({ path: [variable, ...inside], message, input }) => {
    const name = String(variable);
    const part = typeof inside[0] === 'string' ? `.${inside[0]}` : '';
    return `${name}${part}: ${message}${notThis(name, inside.length === 0 ? present[name] : input)}`;
  });
  throw new ConfigError(lines.join('\n'));
}

/** How long the steps of a start may take, and how large they may make a workspace. */
export const preparationLimits = (config: z.output<z.ZodObject<typeof operating>>) => ({
  cloneTimeoutSeconds: config.CLONE_TIMEOUT_SECONDS,
  setupTimeoutSeconds: config.SETUP_TIMEOUT_SECONDS,
  maxRepositoryMebibytes: config.REPOSITORY_MAX_MIB,
});
