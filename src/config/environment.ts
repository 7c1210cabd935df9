import { z } from 'zod';
import { modelCredentials } from './models.ts';
import { outwardSettings } from './outward.ts';

/** Invalid settings. The message has one printable line for each of them. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

interface Range {
  readonly from: number;
  readonly to: number;
  /** Name of the unit in the error. Default: a whole number. */
  readonly unit?: string;
  readonly fractions?: boolean;
  /** Whether 0 is valid too, and means no limit. */
  readonly zeroIsNoLimit?: boolean;
}

/** A number from `from` to `to`. The error names both bounds. */
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

/** A TCP port; with 0 the system selects one. */
export const port = () => numberFrom({ from: 0, to: 65_535 });

const daySeconds = 86_400;
/** A period of at least one millisecond. */
export const seconds = (to = daySeconds) =>
  numberFrom({ from: 0.001, to, unit: 'a number of seconds', fractions: true });

/** A period for the shell command `timeout`. */
const wholeSeconds = () =>
  numberFrom({ from: 1, to: daySeconds, unit: 'a whole number of seconds' });

const maxCount = 1_000_000_000;
export const count = () => numberFrom({ from: 1, to: maxCount });
export const countOrNoLimit = (from = 1) => numberFrom({ from, to: maxCount, zeroIsNoLimit: true });

export const oneOf = <const T extends readonly [string, ...string[]]>(...texts: T) =>
  z.enum(texts, `must be ${texts.slice(0, -1).join(', ')} or ${texts.at(-1) ?? ''}`);

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

/** Origin of a sandbox's port. One DNS label names both, so one wildcard covers all origins. */
const sandboxUrl = z
  .string()
  .regex(
    /^https?:\/\/[a-z0-9-]*\{sandbox\}-{1,2}\{port\}[a-z0-9-]*(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:\d{1,5})?\/?$/,
    'must have the form https://{sandbox}-{port}.agents.example.com',
  );

/** JSON text, whose parsed value further schemas check. */
export const jsonText = (form: string) =>
  z.string().transform((text, context): unknown => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue(form);
      return z.NEVER;
    }
  });

/** A JSON object that maps names of providers to URLs. */
export const urlsByProvider = (fallback: string, url: z.ZodType<string>, example: string) => {
  const form = `must be a JSON object of provider names and base URLs, for example ${example}`;
  return jsonText(form)
    .prefault(fallback)
    .pipe(z.record(z.string(), url, form));
};

export const fileList = z
  .string('must name at least one file')
  .transform((text) => text.split(','));

export const defaultDataDir = './.data';

/** Settings of every process that serves REST or runs controllers. */
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

/** Maximum time of the clone of a repository, and of its transfer through the gateway. */
export const cloneTimeout = { CLONE_TIMEOUT_SECONDS: wholeSeconds().default(600) };

/** Settings of every process that runs controllers. */
export const operating = {
  ...cloneTimeout,
  /** Maximum time that a pause waits for the end of the agent's runs before it deletes the pod. */
  PAUSE_TIMEOUT_SECONDS: seconds().default(15),
  /** Maximum time of a repository's set-up script. */
  SETUP_TIMEOUT_SECONDS: wholeSeconds().default(600),
  /** Maximum size of a repository on its sandbox's volume, with its history. */
  REPOSITORY_MAX_MIB: count().default(10_240),
  ...modelCredentials,
};

/** Settings whose values no error repeats: keys, and URLs that may contain a key. */
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

/** Returns the end of an error message: the given value, unless it may be a secret. */
function notThis(name: string, given: unknown): string {
  if (typeof given !== 'string' || secrets.has(name) || given.includes('@')) return '';
  const shown =
    given.length > maxShownCharacters ? `${given.slice(0, maxShownCharacters)}…` : given;
  return `, not ${JSON.stringify(shown)}`;
}

/**
 * Reads settings from the environment. An empty variable counts as absent. Throws a `ConfigError`
 * that names every invalid variable, with the allowed and the given value.
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

export const preparationLimits = (config: z.output<z.ZodObject<typeof operating>>) => ({
  cloneTimeoutSeconds: config.CLONE_TIMEOUT_SECONDS,
  setupTimeoutSeconds: config.SETUP_TIMEOUT_SECONDS,
  maxRepositoryMebibytes: config.REPOSITORY_MAX_MIB,
});
