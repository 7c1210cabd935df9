import { z } from 'zod';
import type { Route } from '../http/route.ts';
import { conversationScript } from './conversation-script.ts';
import { pageRoute } from './page.ts';

const body = `
<h1 id="title">Conversation</h1>
<form id="open">
  <label>API key <input id="key" type="password" autocomplete="off" spellcheck="false" required></label>
  <button>Show</button>
</form>
<p id="notice" role="status">The key stays in this page, and is forgotten when you leave it.</p>
<dl id="facts"></dl>
`;

/**
 * The page behind the link that clients print for a conversation; the id may be a start task's. The
 * page is the same for every id and discloses none: it asks for a key, and reads what it shows with
 * that key from the interface, like any client.
 */
export const conversationPage = (): Route =>
  pageRoute({
    path: '/conversations/{id}',
    operationId: 'conversationPage',
    summary: 'A page that shows the state of a conversation, once it is given a key',
    params: z.object({ id: z.string() }),
    page: () => ({ title: 'Conversation', body, script: conversationScript }),
  });
