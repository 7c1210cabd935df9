import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { CommandError, unreadable } from '../commands/terminal.ts';
import { UsageError } from './terminal.ts';

const loginSchema = z.object({ server: z.string(), key: z.string(), owner: z.string() });
const loginsSchema = z.object({ logins: z.record(z.string(), loginSchema) });
/** A login at a gateway. `key` is an API key. */
export type Login = z.output<typeof loginSchema>;

type Environment = Readonly<Record<string, string | undefined>>;

/** The file of the logins, one for each context of kubeconfig. */
export const loginFile = (environment: Environment = process.env): string =>
  join(
    environment['XDG_CONFIG_HOME'] || join(environment['HOME'] ?? homedir(), '.config'),
    'conversation-operator',
    'logins.json',
  );

async function storedLogins(file: string): Promise<Readonly<Record<string, Login>>> {
  let text;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return {};
    throw unreadable('logins', file, error);
  }
  try {
    return loginsSchema.parse(JSON.parse(text)).logins;
  } catch (error) {
    // The message of the parser would quote the file, and so the keys.
    if (!(error instanceof SyntaxError) && !(error instanceof z.ZodError)) throw error;
    throw new CommandError(`${file} is no file of logins: delete it, and log in again`);
  }
}

/** The login that was made with this context. */
export const loginOf = async (context: string): Promise<Login | undefined> => {
  const logins = await storedLogins(loginFile());
  return Object.hasOwn(logins, context) ? logins[context] : undefined;
};

/** Stores a login in place of the one of this context. Only the person can read the file. */
export async function storeLogin(context: string, login: Login): Promise<string> {
  const file = loginFile();
  const logins = { ...(await storedLogins(file)), [context]: login };
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const partial = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await writeFile(partial, `${JSON.stringify({ logins }, undefined, 2)}\n`, {
      mode: 0o600,
      flag: 'wx',
    });
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  return file;
}

const isLoopback = ({ hostname }: URL): boolean =>
  /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);

/** The URL of a gateway without a slash at its end. A key is sent by HTTPS, or to this machine. */
export function serverUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isUsable =
    url !== undefined &&
    url.username === '' &&
    url.search === '' &&
    url.hash === '' &&
    (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url)));
  if (!isUsable)
    throw new UsageError(
      `--server: '${text}' must be a URL like https://agents.example.com; http only for this machine`,
    );
  return url.href.replace(/\/+$/, '');
}

export interface Service {
  readonly server: string;
  readonly key: string;
}

/** The gateway of --server, $CONVERSATION_OPERATOR_SERVER or the login; undefined without any. */
export const serverOf = (
  option: string | undefined,
  login: Login | undefined,
): string | undefined => {
  const named = option ?? process.env['CONVERSATION_OPERATOR_SERVER'] ?? login?.server;
  return named === undefined || named === '' ? undefined : serverUrl(named);
};

/** The gateway with a key. The key of a login goes to the gateway of that login alone. */
export async function serviceOf(
  option: string | undefined,
  context: string,
): Promise<Service | undefined> {
  const login = await loginOf(context);
  const server = serverOf(option, login);
  const key =
    process.env['CONVERSATION_OPERATOR_KEY'] || (login?.server === server ? login?.key : undefined);
  return server === undefined || key === undefined ? undefined : { server, key };
}

const problemSchema = z.object({ detail: z.string() });
const callMs = 30_000;

/** Sends a request to a gateway. Returns the status and the JSON body. Throws `CommandError`. */
export async function callService(
  server: string,
  path: string,
  init: {
    readonly method?: string;
    readonly key?: string;
    readonly form?: URLSearchParams;
    readonly signal?: AbortSignal;
  } = {},
): Promise<{ readonly status: number; readonly json: unknown }> {
  const { method = 'GET', key, form, signal } = init;
  const signals = [AbortSignal.timeout(callMs), ...(signal === undefined ? [] : [signal])];
  try {
    const response = await fetch(`${server}${path}`, {
      method,
      // A key must not follow a redirect to another host.
      redirect: 'error',
      signal: AbortSignal.any(signals),
      headers: {
        'user-agent': 'kubectl-conversations',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      ...(form === undefined ? {} : { body: form }),
    });
    const text = await response.text();
    return { status: response.status, json: jsonOf(text) };
  } catch (error) {
    if (signal?.aborted === true) throw error;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw new CommandError(
      `No answer from ${server}: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause: error },
    );
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The gateway's explanation of a refusal. */
export function refusalText({
  status,
  json,
}: {
  readonly status: number;
  readonly json: unknown;
}): string {
  const problem = problemSchema.safeParse(json);
  return problem.success ? problem.data.detail : `it answered ${status}`;
}

/** GET with the key. Throws `CommandError` for any answer but 200. */
export async function readService(
  { server, key }: Service,
  path: string,
  signal?: AbortSignal,
): Promise<unknown> {
  const answer = await callService(server, path, {
    key,
    ...(signal === undefined ? {} : { signal }),
  });
  if (answer.status === 401)
    throw new CommandError(
      `${server} does not accept the key (${refusalText(answer)}): kubectl conversations login --server ${server}`,
    );
  if (answer.status === 404)
    throw new CommandError(
      `${server} answers: ${refusalText(answer)} It shows only what belongs to the owner of the key or login`,
    );
  if (answer.status !== 200) throw new CommandError(`${server} refuses: ${refusalText(answer)}`);
  return answer.json;
}
