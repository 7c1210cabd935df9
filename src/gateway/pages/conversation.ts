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
 * What clients print as the link to a conversation; the id may be a start task's. The page is the same for every id, so it tells
 * nobody which ones exist: it asks for a key, and what it shows it reads with that from the interface, like any client.
 */
export const conversationPage = (): Route =>
  pageRoute({
    path: '/conversations/{id}',
    operationId: 'conversationPage',
    summary: 'A page that shows the state of a conversation, once it is given a key',
    params: z.object({ id: z.string() }),
    page: () => ({ title: 'Conversation', body, script: conversationScript }),
  });
