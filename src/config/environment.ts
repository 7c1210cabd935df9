import { z } from 'zod';

/** A setting that is not what it should be: one line for each, ready to be printed. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** A TCP port; 0 lets the system choose. */
export const anyPort = () => z.coerce.number('must be a number').int('must be a whole number').min(0).max(65_535);

export const port = (fallback: number) => anyPort().default(fallback);

export const seconds = (fallback: number) =>
  z.coerce.number('must be a number of seconds').positive('must be more than 0').default(fallback);

/** For `timeout` of a shell. */
const wholeSeconds = (fallback: number) =>
  z.coerce
    .number('must be a number of seconds')
    .int('must be a whole number of seconds')
    .min(1)
    .max(86_400, 'must be at most a day')
    .default(fallback);

/** A number of things that there may be at most. */
export const count = (fallback: number) => z.coerce.number('must be a number').int('must be a whole number').min(1).default(fallback);

/** `true` and `false`, also `1` and `0`. */
export const flag = (fallback: boolean) =>
  z
    .enum(['true', 'false', '1', '0'])
    .default(fallback ? 'true' : 'false')
    .transform((text) => text === 'true' || text === '1');

/** Texts separated by commas; by default none. */
export const listOf = (isValid: (text: string) => boolean, message: string) =>
  z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== ''),
    )
    .pipe(z.array(z.string().refine(isValid, message)));

export const logging = {
  LOG_LEVEL: z.enum(['error', 'warn', 'info', 'debug']).default('info'),
  LOG_FORMAT: z.enum(['json', 'pretty']).optional(),
};

export const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });

/** An origin for each port of each sandbox. Both stand in the first label, so that one wildcard covers them all. */
const sandboxUrl = z
  .string()
  .regex(
    /^https?:\/\/[a-z0-9-]*\{sandbox\}-{1,2}\{port\}[a-z0-9-]*(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:\d{1,5})?\/?$/,
    'must look like https://{sandbox}-{port}.agents.example.com',
  );

/** Settings that every process which serves REST or runs controllers understands. */
export const shared = {
  ...logging,
  PUBLIC_URL: httpUrl.optional(),
  SANDBOX_URL_TEMPLATE: sandboxUrl.optional(),
  GIT_HOSTS: z
    .string()
    .default('{"github":"https://github.com","gitlab":"https://gitlab.com","bitbucket":"https://bitbucket.org"}')
    .transform((text, context): unknown => {
      try {
        return JSON.parse(text) as unknown;
      } catch {
        context.addIssue('must be a JSON object of provider names and base URLs, for example {"github":"https://github.com"}');
        return z.NEVER;
      }
    })
    .pipe(z.record(z.string(), z.url({ protocol: /^(https?|file)$/, error: 'every value must be an http, https or file URL' }))),
  LEGACY_API: flag(true),
};

/** Of whoever runs the controllers. */
export const operating = {
  /** How long a pause waits for the agent to stop its runs before its pod is deleted all the same. */
  PAUSE_TIMEOUT_SECONDS: seconds(15),
  /** How long the clone of a repository may take. */
  CLONE_TIMEOUT_SECONDS: wholeSeconds(600),
  /** How long a repository's set-up script may take. */
  SETUP_TIMEOUT_SECONDS: wholeSeconds(600),
  /** What a repository may take on its sandbox's volume, with its history. */
  REPOSITORY_MAX_MIB: count(10_240),
  /** A folder with a file for each API key of a model: NAME is everybody's, NAME.OWNER that of one owner. By default there are none. */
  AGENT_CREDENTIALS_DIR: z.string().optional(),
};

/** Reads settings from the environment. Empty counts as absent. Throws `ConfigError` that names every variable that is wrong. */
export function readEnvironment<S extends z.ZodType>(schema: S, environment: NodeJS.ProcessEnv): z.output<S> {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const result = schema.safeParse(present);
  if (result.success) return result.data;
  throw new ConfigError(result.error.issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`).join('\n'));
}

/** How long the steps of a start may take, and how large they may make a workspace. */
export const preparationLimits = (config: z.output<z.ZodObject<typeof operating>>) => ({
  cloneTimeoutSeconds: config.CLONE_TIMEOUT_SECONDS,
  setupTimeoutSeconds: config.SETUP_TIMEOUT_SECONDS,
  maxRepositoryMebibytes: config.REPOSITORY_MAX_MIB,
});
