import type { ReactNode } from 'react'

export const metadata = { title: 'Packing list' }

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body style={{ maxWidth: '40rem', margin: '2rem auto', padding: '0 1rem', font: '16px/1.5 system-ui' }}>
        {children}
      </body>
    </html>
  )
}
