"""Questions about Django and a file that answers each, so that a fast wrong answer shows."""

QUERIES = (
    ("how is a queryset evaluated lazily", "django/db/models/query.py"),
    ("validate the csrf token of a request", "django/middleware/csrf.py"),
    ("resolve a url path to a view", "django/urls/resolvers.py"),
    ("hash a password with pbkdf2", "django/contrib/auth/hashers.py"),
    ("QuerySet.bulk_create", "django/db/models/query.py"),
    ("compile a WHERE clause to SQL", "django/db/models/sql/where.py"),
    ("detect model changes for a migration", "django/db/migrations/autodetector.py"),
    ("render a template with autoescape", "django/template/base.py"),
    ("SessionMiddleware", "django/contrib/sessions/middleware.py"),
    ("parse a multipart form upload", "django/http/multipartparser.py"),
    ("send an email over smtp", "django/core/mail/backends/smtp.py"),
    ("memcached cache backend", "django/core/cache/backends/memcached.py"),
    ("split a long list of objects into pages", "django/core/paginator.py"),
    ("transaction.atomic savepoint rollback", "django/db/transaction.py"),
    ("inlineformset_factory", "django/forms/models.py"),
    ("run a management command from code", "django/core/management/__init__.py"),
    ("connect a receiver to a signal", "django/dispatch/dispatcher.py"),
    ("make a datetime aware of the time zone", "django/utils/timezone.py"),
    ("serve static files in development", "django/contrib/staticfiles/handlers.py"),
    ("admin change list filters", "django/contrib/admin/filters.py"),
)
