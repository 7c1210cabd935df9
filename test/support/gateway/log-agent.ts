import type { StoredEvent } from './fake-history.ts';
import type { StubAgent } from './stub-agent.ts';

/**
 * Answers as an agent whose log has these events: `page_id` is the id of the first event of a page,
 * and an unknown one means the first page. Single events are read by their ids.
 */
export const answerFromLog =
  (events: () => readonly StoredEvent[]): NonNullable<StubAgent['answer']> =>
  (request, response) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://agent');
    const ordered = query.get('sort_order') === 'TIMESTAMP_DESC' ? events().toReversed() : events();
    const start = Math.max(
      ordered.findIndex(({ id }) => id === query.get('page_id')),
      0,
    );
    const end = start + Number(query.get('limit') ?? 100);
    const name = /\/events\/([^/]+)$/.exec(pathname)?.[1] ?? '';
    response.setHeader('content-type', 'application/json');
    if (!['search', 'count'].includes(name)) {
      const event = events().find(({ id }) => id === decodeURIComponent(name));
      response.statusCode = event === undefined ? 404 : 200;
      response.end(JSON.stringify(event ?? { detail: 'Not Found' }));
      return;
    }
    const page = { items: ordered.slice(start, end), next_page_id: ordered[end]?.id ?? null };
    response.end(JSON.stringify(pathname.endsWith('/count') ? ordered.length : page));
  };
