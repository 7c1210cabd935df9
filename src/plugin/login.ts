import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { KubeconfigError, loadConnection } from '@conversation-operator/kube/kubeconfig';
import { CommandError } from '../commands/terminal.ts';
import type { PluginOptions } from './cluster.ts';
import { openPage } from './open.ts';
import { callService, readService, refusalText, serverUrl, storeLogin } from './service.ts';
import { say } from './terminal.ts';

const grantType = 'urn:ietf:params:oauth:grant-type:device_code';
/** A page of the web. A browser's starter would run a program for other addresses, such as `file:`. */
const pageSchema = z.url({ protocol: /^https?$/ });
const begunSchema = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: pageSchema,
  verification_uri_complete: pageSchema.optional(),
  expires_in: z.number(),
  interval: z.number().default(5),
});
const tokenSchema = z.object({ access_token: z.string().min(1) });
const failureSchema = z.object({ error: z.string() });
const personSchema = z.object({ id: z.string().min(1) });

const endings: Readonly<Record<string, string>> = {
  expired_token: 'The code has expired: log in again',
  access_denied: 'The login was refused on the page',
};

/** Name of the context of the kubeconfig; '' without one, because a login needs no cluster. */
async function contextOf({ kubeconfig, context }: PluginOptions): Promise<string> {
  try {
    const loaded = await loadConnection({
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
    });
    return loaded.context;
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error;
    if (kubeconfig !== undefined || context !== undefined)
      throw new CommandError(error.message, { cause: error });
    return '';
  }
}

/** The device login of RFC 8628: a person lets this program in on a page of the gateway. */
export async function login(
  options: PluginOptions & { readonly server: string; readonly browser?: boolean },
): Promise<void> {
  const server = serverUrl(options.server);
  const context = await contextOf(options);
  const answer = await callService(server, '/oauth/device/authorize', { method: 'POST' });
  const begun = begunSchema.safeParse(answer.json);
  if (answer.status !== 200)
    throw new CommandError(`${server} begins no login: ${refusalText(answer)}`);
  if (!begun.success)
    throw new CommandError(
      `${server} begins no login: its answer has no code with the address of a page (http or https)`,
    );
  const { user_code: code, verification_uri: page, verification_uri_complete: whole } = begun.data;
  say(`Open ${whole ?? page}, check that it shows the code ${code}, and allow this program.`);
  if (options.browser !== false) openPage(whole ?? page);
  const key = await granted(server, begun.data);
  const person = personSchema.safeParse(await readService({ server, key }, '/api/v1/users/me'));
  if (!person.success) throw new CommandError(`${server} does not say who you are`);
  const owner = person.data.id;
  const file = await storeLogin(context, { server, key, owner });
  say(
    `Logged in as ${owner}${context === '' ? '' : ` for the context ${context}`}. The key is in ${file}.`,
  );
}

/** Asks for the key in the interval that the gateway states, until the code expires. */
async function granted(
  server: string,
  { device_code, expires_in, interval }: z.output<typeof begunSchema>,
): Promise<string> {
  const form = new URLSearchParams({ grant_type: grantType, device_code });
  const endsAt = Date.now() + expires_in * 1000;
  for (let seconds = interval; Date.now() < endsAt;) {
    await sleep(seconds * 1000);
    const answer = await callService(server, '/oauth/device/token', { method: 'POST', form });
    const token = tokenSchema.safeParse(answer.json);
    if (answer.status === 200 && token.success) return token.data.access_token;
    const failure = failureSchema.safeParse(answer.json);
    const error = failure.success ? failure.data.error : undefined;
    if (error === 'slow_down') seconds += 5;
    // A gateway that restarts or is overloaded answers 5xx or 429; the code stays valid.
    else if (error !== 'authorization_pending' && answer.status < 500 && answer.status !== 429)
      throw new CommandError(
        endings[error ?? ''] ?? `${server} ends the login: ${error ?? refusalText(answer)}`,
      );
  }
  throw new CommandError('The code has expired: log in again');
}
