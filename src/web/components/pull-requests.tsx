import type { ConversationRecord } from '../wire.ts';

/** Links to the pull requests that a conversation has opened, each with its state. */
export const PullRequests = ({
  conversation,
}: {
  readonly conversation: ConversationRecord | undefined;
}) => (
  <>
    {(conversation?.pull_requests ?? []).map(({ number, url, title, draft, state }) => (
      <span key={url} class="pull-request">
        {/^https?:\/\//.test(url) ? (
          <a href={url} title={title} target="_blank" rel="noopener noreferrer">
            Pull request #{number}
          </a>
        ) : (
          `Pull request #${number}`
        )}{' '}
        {draft && state === 'open' ? 'draft' : state}
      </span>
    ))}
  </>
);
