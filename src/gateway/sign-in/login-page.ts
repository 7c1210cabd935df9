import { escapeHtml, type Page } from '../pages/page.ts';

const hidden = (name: string, value: string): string =>
  `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`;

/** Where people get a link, for those who have none. */
const wayToLink =
  '<p>A link signs you in without a key, once. On this machine <code>make run</code> prints one, and the command for the next one, which ends in <code>login-link</code>. On a cluster ask the people who run this service: they make one with <code>conversation-operator login-link --owner NAME</code>.</p>';

/** The page that asks for an API key. */
export const keyPage = ({
  returnTo,
  notice = '',
}: {
  /** Path to open after the sign-in. */
  readonly returnTo: string;
  /** The reason why an attempt has failed. */
  readonly notice?: string;
}): Page => ({
  title: 'Sign in',
  hasForm: true,
  body: `
<main>
<h1>Sign in</h1>
${notice === '' ? '' : `<p role="alert">${escapeHtml(notice)}</p>`}
<form method="post" action="login">
${hidden('return_to', returnTo)}
<p><label>API key<br><input name="api_key" type="password" autocomplete="current-password" spellcheck="false" required autofocus></label></p>
<p><button>Sign in</button></p>
</form>
${wayToLink}
</main>
`,
});

/**
 * The page of a link, whose button signs in. A request for the page changes nothing: a scanner of
 * mails, or another site that opens the link, leaves the decision to the person.
 */
export const confirmationPage = ({
  owner,
  present,
  token,
  returnTo,
}: {
  /** Whom the link signs in as. */
  readonly owner: string;
  /** Owner who is signed in now. */
  readonly present: string | undefined;
  readonly token: string;
  readonly returnTo: string;
}): Page => ({
  title: 'Sign in',
  hasForm: true,
  body: `
<main>
<h1>Sign in as ${escapeHtml(owner)}?</h1>
<p>The link that opened this page signs you in as <b>${escapeHtml(owner)}</b>.${
    present === undefined ? '' : ` You are signed in as <b>${escapeHtml(present)}</b> now.`
  } Continue only if you asked for the link.</p>
<form method="post" action="login">
${hidden('token', token)}
${hidden('return_to', returnTo)}
<p><button>Sign in as ${escapeHtml(owner)}</button></p>
</form>
</main>
`,
});
