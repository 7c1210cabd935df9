import type { Response } from 'express';
import { z } from 'zod';
import type { Audit } from '../../observability/audit.ts';
import type { Clock } from '@conversation-operator/base/clock';
import {
  subscriberOf,
  type TrustedProxies,
} from '@conversation-operator/http/limits/client-address';
import { TokenBuckets, type RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { ApiKeyScope } from '../../resources/api-key.ts';
import { plainText } from '../../resources/plain-text.ts';
import { holderOf, refuseTooDeep, requireScope, type Principal } from '../auth/key-ring.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { unavailable } from '../errors/common-problems.ts';
import { invalidField } from '../errors/validation.ts';
import { callerOf, endpoints, originOf, type HandlerResult, type Route } from '../http/route.ts';
import { escapeHtml, leavePage, sendPage, type Page } from '../pages/page.ts';
import {
  deviceLoginSeconds,
  pollSeconds,
  shownCode,
  userCodeOf,
  type DeviceLogins,
  type PendingLogin,
  type TokenError,
} from './device-logins.ts';
import { formOf, refuseForeignForm } from './routes.ts';
import type { Sessions } from './sessions.ts';

interface DeviceNeeds {
  readonly deviceLogins: DeviceLogins;
  readonly sessions: Sessions;
  readonly isSynced: () => boolean;
  readonly publicUrl: () => string;
  readonly proxies: TrustedProxies;
  readonly rateLimits: RateLimits;
  readonly clock: Clock;
  readonly audit: Audit;
  readonly maxKeyLifetimeMs: number | undefined;
}

const { getOpen, postOpen } = endpoints('pages');
const grantType = 'urn:ietf:params:oauth:grant-type:device_code';
const dayMs = 24 * 60 * 60 * 1000;
const maxProgram = 120;

/** Scopes that a person can grant, and the words of the page; undefined: those of the session. */
const opens = new Map<string, { readonly text: string; readonly scopes?: readonly ApiKeyScope[] }>([
  ['all', { text: 'All that you may do' }],
  ['start', { text: 'Reading, and starting conversations', scopes: ['read', 'start'] }],
  ['read', { text: 'Reading only', scopes: ['read'] }],
]);
/** Maximum days of a key, which ends with the session at the latest. */
const days: readonly number[] = [7, 1];

const deviceSchema = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  expires_in: z.int(),
  interval: z.int(),
});
const tokenSchema = z.object({
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.int().optional(),
});
const tokenErrorSchema = z.object({ error: z.string() });

const codePage = (notice = ''): Page => ({
  title: 'Let a program in',
  hasForm: true,
  body: `
<main>
<h1>Let a program in</h1>
${notice === '' ? '' : `<p role="alert">${escapeHtml(notice)}</p>`}
<form method="get" action="device">
<p><label>Code that the program shows<br><input name="user_code" autocomplete="off" spellcheck="false" required autofocus></label></p>
<p><button>Continue</button></p>
</form>
</main>
`,
});

const questionPage = (
  { device }: PendingLogin,
  code: string,
  { owner, personName }: Principal,
): Page => ({
  title: 'Let a program in',
  hasForm: true,
  body: `
<main>
<h1>Let this program act as ${escapeHtml(personName ?? owner)}?</h1>
<p>Allow it only if you have just started it, and it shows the code <b>${escapeHtml(shownCode(code))}</b>. Whoever sent you a link to this page would get the key.</p>
<dl>
<dt>Program, as it names itself</dt><dd>${escapeHtml(device.program)}</dd>
<dt>Address from which it asks</dt><dd>${escapeHtml(device.address)}</dd>
<dt>Owner</dt><dd>${escapeHtml(owner)}</dd>
</dl>
<form method="post" action="device">
<input type="hidden" name="user_code" value="${escapeHtml(code)}">
<p><label>Its key opens<br><select name="opens">${[...opens].map(([value, { text }]) => `<option value="${value}">${escapeHtml(text)}</option>`).join('')}</select></label></p>
<p><label>and ends with this session, or after<br><select name="days">${days.map((count) => `<option value="${count}">${count === 1 ? '1 day' : `${count} days`}</option>`).join('')}</select></label></p>
<p><button name="answer" value="allow">Allow</button> <button name="answer" value="refuse">Refuse</button></p>
</form>
</main>
`,
});

const donePage = (text: string): Page => ({
  title: 'Let a program in',
  body: `<main><h1>${escapeHtml(text)}</h1><p>You can close this page.</p></main>`,
});

const tooMany = (text: string): ProblemError =>
  new ProblemError('too-many-attempts', text, { retryAfterSeconds: 60 });

const answered = (): ProblemError =>
  new ProblemError('conflict', 'This program has an answer already. Let it begin again.');

const failed = (error: TokenError): HandlerResult => ({ status: 400, json: { error } });

/** The login of a program by a code (RFC 8628), and the page on which a person answers it. */
export function deviceRoutes(needs: DeviceNeeds): readonly Route[] {
  const { deviceLogins, sessions, isSynced, publicUrl, proxies, rateLimits, clock, audit } = needs;
  const ofAddresses = new TokenBuckets({ clock, perSecond: 1 / 6, burst: 10, capacity: 20_000 });
  const ofOwners = new TokenBuckets({ clock, perSecond: 1 / 6, burst: 10, capacity: 20_000 });

  /** The login of a code. Throws 429, for every code, after too many that were not right. */
  function loginOf(text: string, { owner }: Principal): PendingLogin | undefined {
    if (ofOwners.waitMs(owner) > 0) throw tooMany('Too many codes were wrong. Try again later.');
    const found = deviceLogins.find(userCodeOf(text));
    if (found === undefined) ofOwners.take(owner);
    return found;
  }

  /** A page, because a form must not lead to the provider of a sign-in by redirects. */
  const toSignIn = (response: Response, code: string) => {
    const returnTo = `/device?user_code=${encodeURIComponent(code)}`;
    const page = leavePage('Sign in', `login?return_to=${encodeURIComponent(returnTo)}`);
    return sendPage(response, page, 200);
  };

  const wrongCode = 'No program waits with this code: codes are valid for 10 minutes, once.';

  return [
    postOpen('/oauth/device/authorize', 'authorizeDevice', {
      summary: 'Begin the login of a program by a code, which a person enters at /device',
      responses: { 200: deviceSchema },
      problems: ['too-many-attempts', 'unavailable'],
      handle: async ({ request }) => {
        if (!isSynced()) throw unavailable();
        const address = proxies.clientAddress(request);
        if (!ofAddresses.take(subscriberOf(address)).allowed)
          throw tooMany('Too many logins from this address.');
        const program = plainText(request.headers['user-agent'] ?? '', maxProgram) || 'unknown';
        const begun = await deviceLogins.begin({ program, address });
        if (begun === undefined) throw tooMany('Too many programs wait for a person. Try again.');
        const { deviceCode, userCode } = begun;
        const page = `${publicUrl()}/device`;
        return {
          json: {
            device_code: deviceCode,
            user_code: shownCode(userCode),
            verification_uri: page,
            verification_uri_complete: `${page}?user_code=${shownCode(userCode)}`,
            expires_in: deviceLoginSeconds,
            interval: pollSeconds,
          },
        };
      },
    }),
    postOpen('/oauth/device/token', 'redeemDevice', {
      summary: 'The key that a person has granted to a program, once, or why there is none yet',
      responses: { 200: tokenSchema, 400: tokenErrorSchema },
      problems: [
        'body-too-large',
        'request-timeout',
        'unsupported-media-type',
        'too-many-attempts',
        'unavailable',
      ],
      handle: async ({ request, response }) => {
        if (!isSynced()) throw unavailable();
        response.setHeader('cache-control', 'no-store');
        const form = await formOf(request);
        const code = form.get('device_code');
        // The command line openhands 1.16 sends no grant type.
        if ((form.get('grant_type') ?? grantType) !== grantType)
          return failed('unsupported_grant_type');
        if (code === null) return failed('invalid_request');
        const client = proxies.clientAddress(request);
        rateLimits.refuseFailing(client);
        const result = await deviceLogins.redeem(code);
        if (result === 'expired_token') rateLimits.failedKey(client);
        if (typeof result === 'string') return failed(result);
        const { key, granted } = result;
        const { chain } = granted;
        const { owner, description: program = '' } = granted.key.spec;
        const who = holderOf({ owner, chain });
        audit('DeviceKeyRead', { ...originOf(response), ...who, program });
        const seconds = Math.max(0, Math.floor((chain.expiresAtMs - clock.now()) / 1000));
        return { json: { access_token: key, token_type: 'Bearer', expires_in: seconds } };
      },
    }),
    getOpen('/device', 'devicePage', {
      mediaType: 'text/html',
      summary: 'The page on which a person lets a program in, by the code that it shows',
      query: z.object({ user_code: z.string().optional() }),
      responses: { 200: z.string(), 404: z.string() },
      problems: ['too-many-attempts', 'rate-limited', 'insufficient-scope', 'unavailable'],
      handle: async ({ query, request, response }) => {
        if (!isSynced()) throw unavailable();
        const text = typeof query['user_code'] === 'string' ? query['user_code'] : '';
        await sessions.seen(request);
        const person = sessions.holderOf(request);
        if (person === undefined) return toSignIn(response, text);
        requireScope(person.chain, 'manage');
        rateLimits.request(person.owner, 'reads');
        if (text === '') return sendPage(response, codePage(), 200);
        const login = loginOf(text, person);
        return login === undefined
          ? sendPage(response, codePage(wrongCode), 404)
          : sendPage(response, questionPage(login, userCodeOf(text), person), 200);
      },
    }),
    postOpen('/device', 'answerDevice', {
      mediaType: 'text/html',
      summary: 'The answer of a person, by the form of the page',
      responses: { 200: z.string(), 404: z.string() },
      problems: [
        'cross-origin-request',
        'unsupported-media-type',
        'body-too-large',
        'request-timeout',
        'too-many-attempts',
        'rate-limited',
        'insufficient-scope',
        'key-depth-exceeded',
        'too-many-keys',
        'conflict',
        'invalid-request',
        'unavailable',
      ],
      handle: async ({ request, response }) => {
        refuseForeignForm(request, publicUrl());
        if (!isSynced()) throw unavailable();
        const form = await formOf(request);
        const text = form.get('user_code') ?? '';
        await sessions.seen(request);
        const person = sessions.holderOf(request);
        if (person === undefined) return toSignIn(response, text);
        requireScope(person.chain, 'manage');
        rateLimits.request(person.owner, 'writes');
        const login = loginOf(text, person);
        if (login === undefined) return sendPage(response, codePage(wrongCode), 404);
        const { program, address } = login.device;
        const line = { ...callerOf({ principal: person, response }), program, address };
        if (form.get('answer') !== 'allow') {
          if (!(await deviceLogins.refuse(login))) throw answered();
          audit('DeviceLogin', { ...line, isAllowed: false });
          return sendPage(response, donePage('The program gets no key.'), 200);
        }
        refuseTooDeep(person.chain);
        const wanted = opens.get(form.get('opens') ?? '');
        if (wanted === undefined)
          throw invalidField('opens', `must be ${[...opens.keys()].join(', ')}`);
        const scopes = [...(wanted.scopes ?? person.chain.scopes)];
        for (const scope of scopes) requireScope(person.chain, scope);
        const chosen = days.find((count) => String(count) === form.get('days')) ?? 1;
        const limitMs = Math.min(chosen * dayMs, needs.maxKeyLifetimeMs ?? Infinity);
        const expiresAtMs = clock.now() + limitMs;
        const made = await deviceLogins.grant(login, person, { scopes, expiresAtMs });
        if (made === undefined) throw answered();
        audit('DeviceLogin', { ...line, isAllowed: true, made, scopes });
        return sendPage(response, donePage('The program has its key.'), 200);
      },
    }),
  ];
}
