"""``python -m mainspring_services.dlq_handler``."""

from mainspring_services.dlq_handler.main import main

raise SystemExit(main())
