import type { StoredEvent } from './fake-history.ts';
import type { StubAgent } from './stub-agent.ts';

/**
 * Answers as an agent whose log has these events: `page_id` is the id of the first event of a page,
 * and an unknown one means the first page.
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
    const page = {
      items: ordered.slice(start, end),
      next_page_id: ordered[end]?.id ?? null,
    };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(pathname.endsWith('/count') ? ordered.length : page));
  };
