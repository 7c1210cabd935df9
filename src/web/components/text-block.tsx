interface TextBlockProps {
  readonly label: string;
  readonly children: string;
}

/** A text with its lines as they are. The keyboard can scroll it. */
export const TextBlock = ({ label, children }: TextBlockProps) => (
  <pre role="group" tabIndex={0} aria-label={label}>
    {children}
  </pre>
);
